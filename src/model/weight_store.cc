#include "model/weight_store.h"

#include <algorithm>
#include <utility>

namespace fathom {
namespace {

std::string list_of(std::initializer_list<DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += fmt::format("{}{}", text.empty() ? "" : " or ", name_of(dtype));
  return text;
}

}  // namespace

WeightStore::WeightStore(const Checkpoint& checkpoint, Backend& backend, int rank, int world_size, bool map,
                         Progress progress)
    : checkpoint_(&checkpoint),
      backend_(&backend),
      rank_(rank),
      world_size_(world_size),
      map_(map && backend.device().type == DeviceType::cpu),
      progress_(std::move(progress)) {
  CHECK(checkpoint.shards() == 1 || checkpoint.shards() == world_size, "{} is converted for {} ranks, {} are running",
        checkpoint.description(), checkpoint.shards(), world_size);
}

WeightStore::WeightStore(int rank, int world_size, const Checkpoint* formats)
    : checkpoint_(formats), rank_(rank), world_size_(world_size), records_(true) {}

WeightStore::WeightStore(Backend& backend, int rank, int world_size)
    : backend_(&backend), rank_(rank), world_size_(world_size) {}

WeightStore WeightStore::recorder() const {
  WeightStore store(rank_, world_size_, checkpoint_);
  store.backend_ = backend_;
  return store;
}

const Format& WeightStore::stored_format(const std::string& matrix, const Format& configured) const {
  const Format* format = checkpoint_ == nullptr ? nullptr : checkpoint_->format(matrix, configured);
  return format == nullptr ? configured : *format;
}

// Such a device runs no code of the host's in a pass, so the matrix is dequantised once, when it is loaded.
const Format& WeightStore::device_format(const Format& stored, DType compute) const {
  if (backend_ == nullptr || backend_->supports(stored) || backend_->dequantizes(stored)) return stored;
  return compute == DType::f32 ? kF32 : kBf16;
}

Tensor WeightStore::allocate(DType dtype, const Shape& shape) {
  bytes_ += shape.numel() * size_of(dtype);
  if (records_) return Tensor(reinterpret_cast<void*>(Arena::kAlignment), dtype, shape);  // never touched
  storages_.push_back(backend_->allocate(static_cast<std::size_t>(shape.numel() * size_of(dtype))));
  const Tensor x(storages_.back().data(), dtype, shape, backend_->device());
  if (checkpoint_ == nullptr) backend_->run(op::FillRandom{x, storages_.size()});
  return x;
}

void WeightStore::upload(const Tensor& y, std::span<const float> values) {
  if (y.dtype() == DType::f32) return backend_->upload(y, values.data());
  std::vector<bf16_bits> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), float_to_bf16);
  backend_->upload(y, rounded.data());
}

const TensorInfo& WeightStore::locate(const ManifestEntry& entry, std::initializer_list<DType> allowed) const {
  const TensorInfo* stored = checkpoint_->find(entry.full.name);
  const std::string name = checkpoint_->stored_name(entry.full.name);
  CHECK(stored != nullptr, "{} has no tensor {} (expected {} {})", checkpoint_->description(), name, list_of(allowed),
        to_string(entry.full.shape));
  const Shape expected = checkpoint_->shards() > 1 ? entry.shape() : entry.full.shape;
  CHECK(stored->shape == expected, "{}: tensor {} has shape {}, the configuration says {}", checkpoint_->description(),
        name, to_string(stored->shape), to_string(expected));
  CHECK(std::find(allowed.begin(), allowed.end(), stored->dtype) != allowed.end(),
        "{}: tensor {} holds {}, the configuration says {} (is its dtype or quantization_config right?)",
        checkpoint_->description(), name, stored->type(), list_of(allowed));
  return *stored;
}

void WeightStore::add_progress(i64 bytes) {
  bytes_read_ += bytes;
  if (progress_) progress_(bytes_read_);
}

std::vector<std::byte> WeightStore::fetch(const TensorInfo& stored, const ManifestEntry& entry) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.shape().numel() * size_of(stored.dtype)));
  checkpoint_->read(stored, slice_of(entry), bytes);
  check_codes(*checkpoint_, stored, bytes);
  add_progress(static_cast<i64>(bytes.size()));
  return bytes;
}

void WeightStore::fetch_later(const TensorInfo& stored, const ManifestEntry& entry, const Tensor& to) {
  jobs_.push_back({&stored, slice_of(entry), to});
}

Tensor WeightStore::map(const TensorInfo& stored, const ManifestEntry& entry) {
  const Slice slice = slice_of(entry);
  if (!map_ || slice.dim > 0) return {};
  const std::byte* bytes = checkpoint_->map(stored);
  if (bytes == nullptr) return {};
  // A backend only reads weights.
  Tensor x(const_cast<std::byte*>(bytes), stored.dtype, stored.shape, backend_->device());
  if (slice.dim == 0) x = x.narrow(0, slice.start, slice.length);
  jobs_.push_back({&stored, slice, x, true});
  return x;
}

const Weight* WeightStore::keep(std::vector<Weight> matrices) {
  stacks_.push_back(std::move(matrices));
  return stacks_.back().data();
}

void WeightStore::load() {
  if (dry()) return;
  load_weights(*checkpoint_, *backend_, std::exchange(jobs_, {}), [this](i64 bytes) { add_progress(bytes); });
}

}  // namespace fathom
