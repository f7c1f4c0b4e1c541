// WeightStore: owner of a model's weights on a device, and where they come from.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/manifest.h"
#include "model/weight_loader.h"
#include "quant/weight.h"

namespace fathom {

// Without a checkpoint to read it only records what the modules ask for (the manifest) and gives out views that must
// not be touched.
class WeightStore {
 public:
  // Called while loading with the bytes read so far.
  using Progress = std::function<void(i64 bytes)>;

  // `map`: weights in the host's memory stay where their files are mapped, if they can; then the checkpoint
  // outlives the model. Else they are copied.
  WeightStore(const Checkpoint& checkpoint, Backend& backend, int rank, int world_size, bool map,
              Progress progress = {});
  // Records only. Matrices have the formats that `formats` says, without it those of the configuration.
  WeightStore(int rank, int world_size, const Checkpoint* formats = nullptr);
  // Device memory with random numbers and no checkpoint, for benches.
  WeightStore(Backend& backend, int rank, int world_size);

  // A store that only records, and counts the bytes that the same model would take here.
  WeightStore recorder() const;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  const Backend* backend() const { return backend_; }
  const std::vector<ManifestEntry>& entries() const { return entries_; }
  // Device memory that was taken; of a store that records: that would be.
  i64 bytes() const { return bytes_; }

 private:
  friend class Params;
  // True when nothing is read.
  bool dry() const { return records_ || checkpoint_ == nullptr; }
  // What the checkpoint's files call this tensor.
  std::string stored_name(const std::string& name) const {
    return checkpoint_ == nullptr ? name : checkpoint_->stored_name(name);
  }
  // The format in which the checkpoint has this matrix; `configured` where it does not say.
  const Format& stored_format(const std::string& matrix, const Format& configured) const;
  // The format in which the device gets it: the same, or numbers of type `compute` where the device can do nothing
  // with that.
  const Format& device_format(const Format& stored, DType compute) const;
  // Device memory for a tensor of this shape.
  Tensor allocate(DType dtype, const Shape& shape);
  // Writes numbers in the tensor's type, float32 or bf16.
  void upload(const Tensor& y, std::span<const float> values);
  // Notes that a module wants this tensor.
  void record(const ManifestEntry& entry) { entries_.push_back(entry); }
  // The checkpoint's tensor for an entry: throws when it is missing, or of another shape or of a type not in `allowed`.
  const TensorInfo& locate(const ManifestEntry& entry, std::initializer_list<DType> allowed) const;
  // Reads the rank's part of a located tensor.
  std::vector<std::byte> fetch(const TensorInfo& stored, const ManifestEntry& entry);
  // The same into a place on the device, of the same type, by the next load().
  void fetch_later(const TensorInfo& stored, const ManifestEntry& entry, const Tensor& to);
  // The rank's part where the file is mapped, in memory after the next load(); undefined when it has to be copied.
  Tensor map(const TensorInfo& stored, const ManifestEntry& entry);
  // Keeps the matrices of a stack.
  const Weight* keep(std::vector<Weight> matrices);
  void load();
  void add_progress(i64 bytes);
  Slice slice_of(const ManifestEntry& entry) const { return checkpoint_->shards() > 1 ? Slice{} : entry.slice; }

  const Checkpoint* checkpoint_ = nullptr;
  Backend* backend_ = nullptr;
  int rank_, world_size_;
  bool records_ = false, map_ = false;
  Progress progress_;
  i64 bytes_read_ = 0, bytes_ = 0;
  std::vector<LoadJob> jobs_;  // of fetch_later() and map()
  std::vector<Storage> storages_;
  std::vector<std::vector<Weight>> stacks_;  // of keep(); the inner ones do not move
  std::vector<ManifestEntry> entries_;
};

}  // namespace fathom
