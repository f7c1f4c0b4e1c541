// Params: a cursor over a checkpoint from which modules take their own parameters, for one rank and one device.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/args.h"
#include "model/manifest.h"
#include "model/weight_loader.h"
#include "ops/context.h"
#include "quant/weight.h"

namespace fathom {

// How a matrix [out, in] is divided among ranks.
enum class Split { none, out, in };

// Owner of a model's weights on a device, and where they come from. Without a checkpoint it only records what the
// modules ask for (the manifest) and gives out views that must not be touched.
class WeightStore {
 public:
  // Called while loading with the bytes read so far.
  using Progress = std::function<void(i64 bytes)>;

  // `map`: weights in the host's memory stay where their files are mapped, if they can; then the checkpoint
  // outlives the model. Else they are copied.
  WeightStore(const Checkpoint& checkpoint, Backend& backend, int rank, int world_size, bool map,
              Progress progress = {});
  WeightStore(int rank, int world_size);  // records only
  // Device memory with random numbers and no checkpoint, for benches.
  WeightStore(Backend& backend, int rank, int world_size);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  const std::vector<ManifestEntry>& entries() const { return entries_; }
  // Device memory that was taken; without a checkpoint: that would be.
  i64 bytes() const { return bytes_; }

 private:
  friend class Params;
  // Device memory for a tensor of this shape.
  Tensor allocate(DType dtype, const Shape& shape);
  // Notes that a module wants this tensor.
  void record(ManifestEntry entry) { entries_.push_back(std::move(entry)); }
  // The checkpoint's tensor for an entry: throws when it is missing, or of another shape or of a type not in `allowed`.
  const TensorInfo& locate(const ManifestEntry& entry, std::initializer_list<DType> allowed) const;
  // Reads the rank's part of a located tensor.
  void fetch(const TensorInfo& stored, const ManifestEntry& entry, std::span<std::byte> out);
  // The same into a place on the device, of the same type, by the next load().
  void fetch_later(const TensorInfo& stored, const ManifestEntry& entry, const Tensor& to);
  // The rank's part where the file is mapped, in memory after the next load(); undefined when it has to be copied.
  Tensor map(const TensorInfo& stored, const ManifestEntry& entry);
  // Keeps the matrices of a stack.
  const Weight* keep(std::vector<Weight> matrices);
  void load();
  void add_progress(i64 bytes);

  const Checkpoint* checkpoint_ = nullptr;
  Backend* backend_ = nullptr;
  int rank_, world_size_;
  bool map_ = false;
  Progress progress_;
  i64 bytes_read_ = 0, bytes_ = 0;
  std::vector<LoadJob> jobs_;  // of fetch_later() and map()
  std::vector<Storage> storages_;
  std::vector<std::vector<Weight>> stacks_;  // of keep(); the inner ones do not move
  std::vector<ManifestEntry> entries_;
};

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

  // The matrix "weight" (and "scale" in a block format) here: this rank's part of [out, in].
  Weight matrix(i64 out, i64 in, Split split, const Format& format) const;
  // Matrices "<i>.<leaf>.weight" for i in [first, first + n) as one stack [n, out, in].
  Weight stack(const std::string& leaf, i64 first, i64 n, i64 out, i64 in) const;
  // A vector [n] called `leaf` here, in float32; stored as float32 or bf16.
  Tensor vector(const std::string& leaf, i64 n) const;
  // The matrix "weight" here, widened to float32 on the host: this rank's part of [out, in]. Empty when dry.
  std::vector<float> host_matrix(i64 out, i64 in, Split split) const;
  // Uploads numbers that follow from the configuration or from a host_matrix, as bf16 or float32: `fill` gives entry i
  // of the first dimension. It is not called when dry.
  using Fill = std::function<void(i64 i, std::span<float> values)>;
  Tensor derived(const Shape& shape, DType dtype, const Fill& fill) const;
  // Reads what matrix() and stack() gave out so far. A model calls it when all its modules are made; before that their
  // numbers are not there.
  void load() const { store_->load(); }
  // True when nothing is loaded (manifest only).
  bool dry() const { return store_->checkpoint_ == nullptr; }

 private:
  std::string name(const std::string& leaf) const { return prefix_.empty() ? leaf : prefix_ + "." + leaf; }
  // The entry of this rank's part of tensor `leaf` here; `unit` entries of the dimension that is cut must stay
  // together.
  ManifestEntry entry(const std::string& leaf, DType dtype, const Shape& shape, Split split, i64 unit) const;
  // The matrix here and its scales as the checkpoint has them; both null when dry.
  struct Found {
    ManifestEntry weight, scale;
    const TensorInfo *stored = nullptr, *stored_scale = nullptr;
  };
  // Records the matrix here and its scales.
  Found find_matrix(i64 out, i64 in, Split split, const Format& format) const;
  // The found matrix and its scales, loaded by the next load(); `make_data` and `make_scale` give places for what is
  // not used where it is mapped.
  Weight place(const Found& found, const std::function<Tensor()>& make_data,
               const std::function<Tensor()>& make_scale) const;
  // Reads a matrix and its scales into `data` and `scale` (host; empty when dry).
  struct HostMatrix {
    DType dtype = DType::bf16;
    Shape shape, scale_shape;
    std::vector<std::byte> data;
    std::vector<float> scale;
  };
  std::vector<float> read_scale(const Found& found) const;
  HostMatrix read_matrix(i64 out, i64 in, Split split, const Format& format) const;

  WeightStore* store_;
  const ModelArgs* args_;
  const ComputeOptions* options_;
  std::string prefix_;
};

}  // namespace fathom
