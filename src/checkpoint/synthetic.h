// Synthetic weights: every value follows from a seed, the tensor's Hugging Face name and its position alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/numeric.h"
#include "checkpoint/checkpoint.h"

namespace fathom {

// The formula, version 1, of one tensor. With G = 0x9E3779B97F4A7C15 and mix the finaliser of SplitMix64:
//   base = mix(fnv1a64(hf_name) ^ mix(seed + G)),  r_i = mix(base + (i + 1) * G)   i: row-major index in the whole
//   tensor s_i = sum of the four 16-bit parts of r_i,     g_i = (s_i - 131070) * (sqrt(3) / 65536) value_i =
//   float32(mean + std * g_i) in float64 arithmetic, then rounded to the tensor's type
// mean, std: norms 1, 0.1; embedding 0, 1; correction bias 0, 0.05; head 0, 4 / sqrt(in); gate 0, 2 / sqrt(in);
// every other matrix 0, 1 / sqrt(in), in being the last dimension.
class SyntheticTensor {
 public:
  SyntheticTensor(std::uint64_t seed, std::string_view hf_name, const Shape& shape);

  // Values from index `first` on, before rounding to a narrower type, or rounded to bf16.
  void values(i64 first, std::span<float> out) const;
  void values(i64 first, std::span<bf16_bits> out) const;
  // The float32 forms of the bf16 values.
  void rounded(i64 first, std::span<float> out) const;

 private:
  template <typename T, typename Convert>
  void generate(i64 first, std::span<T> out, Convert&& convert) const;

  std::uint64_t base_;
  double mean_, std_;
};

// A checkpoint whose tensors are computed when they are read; a slice costs what it holds. FP8 matrices are the bf16
// values quantised in blocks of 128 x 128, and their scales are tensors named "....scale".
class SyntheticCheckpoint : public Checkpoint {
 public:
  // `tensors` bear reference names; their types are f32, bf16 or e4m3 (with a float32 scale tensor beside it). With
  // `tied_head` the head has the values of the embedding.
  SyntheticCheckpoint(std::string description, std::vector<TensorInfo> tensors, std::uint64_t seed,
                      bool power_of_two_scales, bool tied_head = false);

  std::string description() const override { return description_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override;

 private:
  void read_scales(const TensorInfo& weight, const TensorInfo& info, const Slice& slice, float* out) const;
  SyntheticTensor source(const TensorInfo& info) const;

  std::string description_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, std::size_t> index_;  // views of the names in tensors_
  std::uint64_t seed_;
  bool power_of_two_, tied_head_;
};

}  // namespace fathom
