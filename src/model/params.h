// Params: a cursor over a checkpoint from which modules take their own parameters, for one rank and one device.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/args.h"
#include "model/weight_store.h"
#include "ops/context.h"

namespace fathom {

// How a matrix [out, in] is divided among ranks.
enum class Split { none, out, in };

class Params {
 public:
  Params(WeightStore& store, const ModelArgs& args, const ComputeOptions& options)
      : store_(&store), args_(&args), options_(&options) {}

  // The cursor one name deeper: sub("layers").sub(3).sub("attn").
  Params sub(const std::string& name) const;
  Params sub(i64 index) const { return sub(std::to_string(index)); }

  const ModelArgs& args() const { return *args_; }
  const ComputeOptions& options() const { return *options_; }
  int rank() const { return store_->rank(); }
  int world_size() const { return store_->world_size(); }

  // The matrix "weight" here with its "scale" and "zero", if it has them: this rank's part of [out, in]. Its format is
  // what the checkpoint stores; `configured` where it cannot tell.
  Weight matrix(i64 out, i64 in, Split split, const Format& configured) const;
  // The same of a matrix that is never quantised: bf16 or float32.
  Weight plain_matrix(i64 out, i64 in, Split split) const;
  // Matrices "<i>.<leaf>.weight" for i in [first, first + n) as one stack [n, out, in].
  Weight stack(const std::string& leaf, i64 first, i64 n, i64 out, i64 in) const;
  // A vector [n] called `leaf` here, in float32; stored as float32 or bf16.
  Tensor vector(const std::string& leaf, i64 n) const;
  // The matrix here as float32 on the host: this rank's part of [out, in]. Empty when dry.
  std::vector<float> host_matrix(i64 out, i64 in, Split split) const;
  // Uploads numbers that follow from the configuration or from a host_matrix, as bf16 or float32: `fill` gives entry i
  // of the first dimension. It is not called when dry.
  using Fill = std::function<void(i64 i, std::span<float> values)>;
  Tensor derived(const Shape& shape, DType dtype, const Fill& fill) const;
  // Reads what matrix() and stack() gave out so far. A model calls it when all its modules are made; before that their
  // numbers are not there.
  void load() const { store_->load(); }
  // True when nothing is loaded (manifest only).
  bool dry() const { return store_->dry(); }

 private:
  // A tensor of a matrix in the checkpoint; `stored` is null when dry.
  struct Part {
    ManifestEntry entry;
    const TensorInfo* stored = nullptr;
  };
  // The rank's part of a matrix: [out, in], its format, and its data, scales and zero points, those that it has.
  struct Found {
    const Format* format;
    i64 out, in;
    std::vector<Part> parts;
  };
  // Gives the place of a part on the device.
  using Room = std::function<Tensor(std::size_t part)>;

  std::string name(const std::string& leaf) const { return prefix_.empty() ? leaf : prefix_ + "." + leaf; }
  // This rank's numbers of the matrix here.
  Slice cut(i64 out, i64 in, Split split, const Format& format) const;
  ManifestEntry entry(const std::string& leaf, DType dtype, const Shape& shape, const Slice& slice,
                      i64 parameters) const;
  // Records the matrix here and finds it.
  Found find(i64 out, i64 in, Split split, const Format& format) const;
  // The matrix on the device, in `format`, loaded by the next load(). No room is asked for what is used where it is
  // mapped.
  Weight place(const Found& found, const Format& format, const Room& room) const;
  Weight place(const Found& found) const;
  std::vector<float> read(const Found& found) const;

  WeightStore* store_;
  const ModelArgs* args_;
  const ComputeOptions* options_;
  std::string prefix_;
};

}  // namespace fathom
