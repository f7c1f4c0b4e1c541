#include "checkpoint/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "checkpoint/slice.h"
#include "quant/fp8_block.h"

namespace fathom {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;
constexpr i64 kChunk = 128;  // values computed in one go: fixed, so that the loops become vector code

constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

// The part of the name that says what the tensor is: "q_a_layernorm" of "....q_a_layernorm.weight".
std::string_view leaf_of(std::string_view name) {
  if (name.ends_with(".weight") || name.ends_with(".bias")) name = name.substr(0, name.rfind('.'));
  return name.substr(name.rfind('.') + 1);
}

struct Moments {
  double mean, std;
};

Moments moments_of(std::string_view name, i64 fan_in) {
  const std::string_view leaf = leaf_of(name);
  if (leaf.ends_with("norm")) return {1.0, 0.1};
  if (leaf == "embed_tokens") return {0.0, 1.0};
  if (name.ends_with("e_score_correction_bias")) return {0.0, 0.05};
  const double fan = std::sqrt(static_cast<double>(fan_in));
  if (name.ends_with("lm_head.weight") || name.ends_with("shared_head.head.weight")) return {0.0, 4.0 / fan};
  if (name.ends_with("mlp.gate.weight")) return {0.0, 2.0 / fan};
  return {0.0, 1.0 / fan};
}

using Chunk = std::array<float, kChunk>;

// kChunk values from the one with counter `z` (base + (index + 1) * G) on.
void chunk_of(std::uint64_t z, double mean, double std, Chunk& out) {
  const double unit = std::sqrt(3.0) / 65536.0;
  std::array<std::int32_t, kChunk> sums;
  std::array<double, kChunk> scaled;
  for (std::size_t i = 0; i < kChunk; ++i) {
    const std::uint64_t r = mix(z + i * kGolden);
    const std::uint64_t pairs = (r & 0x0000ffff0000ffffu) + (r >> 16 & 0x0000ffff0000ffffu);
    sums[i] = static_cast<std::int32_t>(pairs) + static_cast<std::int32_t>(pairs >> 32);
  }
  for (std::size_t i = 0; i < kChunk; ++i) scaled[i] = std * ((static_cast<double>(sums[i]) - 131070.0) * unit);
  // A loop of its own: together with the product the compiler might make it a fused multiply-add, which rounds once
  // less.
  for (std::size_t i = 0; i < kChunk; ++i) out[i] = static_cast<float>(mean + scaled[i]);
}

// float_to_bf16 for finite values, as bits of a float32.
constexpr std::uint32_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
}

// Quantises the block of `weight` (stored [rows, cols] at index origin + r * stride + c) into codes and its scale.
struct Block {
  i64 row, rows, col, cols;
};

void block_values(const SyntheticTensor& tensor, const Shape& shape, const Block& block, float* out) {
  for (i64 r = 0; r < block.rows; ++r)
    tensor.rounded((block.row + r) * shape[1] + block.col,
                   std::span(out + r * block.cols, static_cast<std::size_t>(block.cols)));
}

// Block (i, j) of a matrix; edge blocks are cut.
Block block_at(const Shape& shape, i64 i, i64 j) {
  const i64 row = i * kFp8Block, col = j * kFp8Block;
  return {row, std::min(kFp8Block, shape[0] - row), col, std::min(kFp8Block, shape[1] - col)};
}

// A slice of a matrix as row and column ranges.
struct Rectangle {
  i64 row, rows, col, cols;
};

Rectangle rectangle_of(const TensorInfo& info, const Slice& slice) {
  const Shape part = slice_shape(info, slice);
  return {slice.dim == 0 ? slice.start : 0, part[0], slice.dim == 1 ? slice.start : 0, part[1]};
}

void read_codes(const SyntheticTensor& tensor, const TensorInfo& info, const Slice& slice, bool power_of_two,
                e4m3_bits* out) {
  const Rectangle want = rectangle_of(info, slice);
  if (want.rows == 0 || want.cols == 0) return;
  std::vector<float> values(kFp8Block * kFp8Block);
  std::vector<e4m3_bits> codes(kFp8Block * kFp8Block);
  for (i64 i = want.row / kFp8Block; i * kFp8Block < want.row + want.rows; ++i)
    for (i64 j = want.col / kFp8Block; j * kFp8Block < want.col + want.cols; ++j) {
      const Block block = block_at(info.shape, i, j);
      float scale = 0;
      block_values(tensor, info.shape, block, values.data());
      quantize_weight(values.data(), block.rows, block.cols, power_of_two, codes.data(), &scale);
      const i64 c0 = std::max(block.col, want.col), c1 = std::min(block.col + block.cols, want.col + want.cols);
      const i64 r0 = std::max(block.row, want.row), r1 = std::min(block.row + block.rows, want.row + want.rows);
      for (i64 r = r0; r < r1; ++r)
        std::memcpy(out + (r - want.row) * want.cols + c0 - want.col,
                    codes.data() + (r - block.row) * block.cols + c0 - block.col, static_cast<std::size_t>(c1 - c0));
    }
}

// Calls body(first, count, done) for each run of consecutive indices in the part, `done` values being before it.
template <typename Body>
void for_each_run(const TensorInfo& info, const Slice& slice, Body&& body) {
  const Shape part = slice_shape(info, slice);
  if (slice.dim < 0) return body(i64{0}, part.numel(), i64{0});
  i64 runs = 1, inner = 1;
  for (int d = 0; d < slice.dim; ++d) runs *= part[d];
  for (int d = slice.dim + 1; d < part.rank(); ++d) inner *= part[d];
  const i64 count = slice.length * inner;
  for (i64 run = 0; run < runs; ++run) body((run * info.shape[slice.dim] + slice.start) * inner, count, run * count);
}

// "layers.0.attn.wo.weight" of "layers.0.attn.wo.scale"; empty for other names.
std::string weight_of_scale(std::string_view name) {
  constexpr std::string_view kScale = ".scale";
  if (!name.ends_with(kScale)) return {};
  return std::string(name.substr(0, name.size() - kScale.size())) + ".weight";
}

}  // namespace

SyntheticTensor::SyntheticTensor(std::uint64_t seed, std::string_view hf_name, const Shape& shape)
    : base_(mix(fnv1a(hf_name) ^ mix(seed + kGolden))) {
  const Moments moments = moments_of(hf_name, shape.rank() == 0 ? 1 : shape[shape.rank() - 1]);
  mean_ = moments.mean;
  std_ = moments.std;
}

template <typename T, typename Convert>
void SyntheticTensor::generate(i64 first, std::span<T> out, Convert&& convert) const {
  Chunk chunk;
  std::array<T, kChunk> converted;
  for (std::size_t done = 0; done < out.size(); done += kChunk) {
    const auto index = static_cast<std::uint64_t>(first) + done;
    chunk_of(base_ + (index + 1) * kGolden, mean_, std_, chunk);
    for (std::size_t i = 0; i < kChunk; ++i) converted[i] = convert(chunk[i]);
    std::copy_n(converted.begin(), std::min<std::size_t>(kChunk, out.size() - done),
                out.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

void SyntheticTensor::values(i64 first, std::span<float> out) const {
  generate(first, out, [](float value) { return value; });
}

void SyntheticTensor::values(i64 first, std::span<bf16_bits> out) const {
  generate(first, out, [](float value) { return static_cast<bf16_bits>(round_to_bf16(value) >> 16); });
}

void SyntheticTensor::rounded(i64 first, std::span<float> out) const {
  generate(first, out, [](float value) { return std::bit_cast<float>(round_to_bf16(value)); });
}

SyntheticCheckpoint::SyntheticCheckpoint(std::string description, std::vector<TensorInfo> tensors, std::uint64_t seed,
                                         bool power_of_two_scales, bool tied_head)
    : description_(std::move(description)),
      tensors_(std::move(tensors)),
      seed_(seed),
      power_of_two_(power_of_two_scales),
      tied_head_(tied_head) {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    CHECK(index_.emplace(tensors_[i].name, i).second, "{}: tensor {} is listed twice", description_, tensors_[i].name);
}

const TensorInfo* SyntheticCheckpoint::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

SyntheticTensor SyntheticCheckpoint::source(const TensorInfo& info) const {
  const auto name = hf_name(tied_head_ && info.name == "head.weight" ? "embed.weight" : info.name);
  CHECK(name.has_value(), "{}: {} is no tensor name of the reference", description_, info.name);
  return SyntheticTensor(seed_, *name, info.shape);
}

void SyntheticCheckpoint::read_scales(const TensorInfo& weight, const TensorInfo& info, const Slice& slice,
                                      float* out) const {
  const Shape grid{blocks_of(weight.shape[0]), blocks_of(weight.shape[1])};
  CHECK(info.shape == grid, "{}: scales {} of {} {}; {} is needed", description_, to_string(info.shape), weight.name,
        to_string(weight.shape), to_string(grid));
  const SyntheticTensor tensor = source(weight);
  const Rectangle want = rectangle_of(info, slice);
  std::vector<float> values(kFp8Block * kFp8Block);
  for (i64 i = want.row; i < want.row + want.rows; ++i)
    for (i64 j = want.col; j < want.col + want.cols; ++j) {
      const Block block = block_at(weight.shape, i, j);
      block_values(tensor, weight.shape, block, values.data());
      std::uint32_t amax = 0;  // magnitudes of finite floats are ordered as their bits are
      for (i64 k = 0; k < block.rows * block.cols; ++k)
        amax = std::max(amax, std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(k)]) & 0x7fffffffu);
      *out++ = weight_scale(std::bit_cast<float>(amax), power_of_two_);
    }
}

void SyntheticCheckpoint::read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const {
  const i64 bytes = slice_shape(info, slice).numel() * size_of(info.dtype);
  CHECK(static_cast<i64>(out.size()) == bytes, "reading {}: {} bytes of room for {} bytes", info.name, out.size(),
        bytes);
  if (info.dtype == DType::f32) {
    auto* values = reinterpret_cast<float*>(out.data());
    const TensorInfo* weight = find(weight_of_scale(info.name));
    if (weight != nullptr && weight->dtype == DType::e4m3) return read_scales(*weight, info, slice, values);
    const SyntheticTensor tensor = source(info);
    for_each_run(info, slice, [&](i64 first, i64 count, i64 done) {
      tensor.values(first, std::span(values + done, static_cast<std::size_t>(count)));
    });
  } else if (info.dtype == DType::bf16) {
    auto* values = reinterpret_cast<bf16_bits*>(out.data());
    const SyntheticTensor tensor = source(info);
    for_each_run(info, slice, [&](i64 first, i64 count, i64 done) {
      tensor.values(first, std::span(values + done, static_cast<std::size_t>(count)));
    });
  } else {
    CHECK(info.dtype == DType::e4m3 && info.shape.rank() == 2, "{}: {} of type {} {} cannot be synthetic", description_,
          info.name, name_of(info.dtype), to_string(info.shape));
    read_codes(source(info), info, slice, power_of_two_, reinterpret_cast<e4m3_bits*>(out.data()));
  }
}

}  // namespace fathom
