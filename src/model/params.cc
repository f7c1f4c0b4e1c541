#include "model/params.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "quant/fp8_block.h"

namespace fathom {
namespace {

std::string list_of(std::initializer_list<DType> dtypes) {
  std::string text;
  for (const DType dtype : dtypes) text += fmt::format("{}{}", text.empty() ? "" : " or ", name_of(dtype));
  return text;
}

// Numbers of a stored type as float32.
std::vector<float> widen(std::span<const std::byte> bytes, DType dtype) {
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * static_cast<std::size_t>(size_of(dtype)),
                static_cast<std::size_t>(size_of(dtype)));
    switch (dtype) {
      case DType::f32:
        values[i] = std::bit_cast<float>(bits);
        break;
      case DType::bf16:
        values[i] = bf16_to_float(static_cast<bf16_bits>(bits));
        break;
      case DType::e8m0:
        values[i] = e8m0_to_float(static_cast<e8m0_bits>(bits));
        break;
      default:
        fail("numbers of type {} are not widened", name_of(dtype));
    }
  }
  return values;
}

// Sizes up to 64 ranks that cut n entries into equal parts of whole units, for a message.
std::string working_sizes(i64 n, i64 unit) {
  std::string text;
  for (i64 size = 1; size <= 64; ++size)
    if (n % size == 0 && (size == 1 || n / size % unit == 0))
      text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  return text;
}

std::string group_of(const std::string& name, const ModelArgs& args) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (name.starts_with("layers.") && std::stoll(name.substr(7)) >= args.n_layers) return "mtp";
  if (name.starts_with("embed.")) return "embedding";
  if (name.starts_with("head.")) return "head";
  if (has("norm")) return "norm";
  if (has(".attn.")) return "attention";
  if (has(".gate.")) return "gate";
  if (has(".shared_experts.")) return "shared";
  return has(".experts.") ? "routed" : "dense";
}

}  // namespace

Shape ManifestEntry::shape() const {
  Shape part = full.shape;
  if (slice.dim >= 0) part[slice.dim] = slice.length;
  return part;
}

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

WeightStore::WeightStore(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

WeightStore::WeightStore(Backend& backend, int rank, int world_size)
    : backend_(&backend), rank_(rank), world_size_(world_size) {}

Tensor WeightStore::allocate(DType dtype, const Shape& shape) {
  bytes_ += shape.numel() * size_of(dtype);
  if (backend_ == nullptr) return Tensor(reinterpret_cast<void*>(Arena::kAlignment), dtype, shape);  // never touched
  storages_.push_back(backend_->allocate(static_cast<std::size_t>(shape.numel() * size_of(dtype))));
  const Tensor x(storages_.back().data(), dtype, shape, backend_->device());
  if (checkpoint_ == nullptr) backend_->try_run(op::FillRandom{x, storages_.size()});
  return x;
}

const TensorInfo& WeightStore::locate(const ManifestEntry& entry, std::initializer_list<DType> allowed) const {
  const TensorInfo* stored = checkpoint_->find(entry.full.name);
  CHECK(stored != nullptr, "{} has no tensor {} (expected {} {})", checkpoint_->description(), entry.full.name,
        list_of(allowed), to_string(entry.full.shape));
  const Shape expected = checkpoint_->shards() > 1 ? entry.shape() : entry.full.shape;
  CHECK(stored->shape == expected, "{}: tensor {} has shape {}, the configuration says {}", checkpoint_->description(),
        entry.full.name, to_string(stored->shape), to_string(expected));
  CHECK(std::find(allowed.begin(), allowed.end(), stored->dtype) != allowed.end(),
        "{}: tensor {} holds {}, the configuration says {} (is its dtype or quantization_config right?)",
        checkpoint_->description(), entry.full.name, name_of(stored->dtype), list_of(allowed));
  return *stored;
}

void WeightStore::add_progress(i64 bytes) {
  bytes_read_ += bytes;
  if (progress_) progress_(bytes_read_);
}

void WeightStore::fetch(const TensorInfo& stored, const ManifestEntry& entry, std::span<std::byte> out) {
  checkpoint_->read(stored, checkpoint_->shards() > 1 ? Slice{} : entry.slice, out);
  add_progress(static_cast<i64>(out.size()));
}

void WeightStore::fetch_later(const TensorInfo& stored, const ManifestEntry& entry, const Tensor& to) {
  jobs_.push_back({&stored, checkpoint_->shards() > 1 ? Slice{} : entry.slice, to});
}

Tensor WeightStore::map(const TensorInfo& stored, const ManifestEntry& entry) {
  const Slice slice = checkpoint_->shards() > 1 ? Slice{} : entry.slice;
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
  if (checkpoint_ == nullptr) return;
  load_weights(*checkpoint_, *backend_, std::exchange(jobs_, {}), [this](i64 bytes) { add_progress(bytes); });
}

Params Params::sub(const std::string& leaf) const {
  Params deeper = *this;
  deeper.prefix_ = name(leaf);
  return deeper;
}

ManifestEntry Params::entry(const std::string& leaf, DType dtype, const Shape& shape, Split split, i64 unit) const {
  ManifestEntry entry{{name(leaf), dtype, shape}, {}, group_of(name(leaf), *args_)};
  if (split == Split::none || world_size() == 1) return entry;
  const int dim = split == Split::out ? 0 : 1;
  const i64 n = shape[dim], part = n / world_size();
  CHECK(n % world_size() == 0,
        "{} features must be divisible by world size (world_size={}): {} has {}; sizes that work: {}",
        dim == 0 ? "Output" : "Input", world_size(), entry.full.name, n, working_sizes(n, unit));
  CHECK(part % unit == 0,
        "{}: a cut of dimension {} ({} entries) among {} ranks falls inside a {}-block of FP8 scales; sizes that work: "
        "{}",
        entry.full.name, dim, n, world_size(), unit, working_sizes(n, unit));
  entry.slice = {dim, part * rank(), part};
  return entry;
}

Params::Found Params::find_matrix(i64 out, i64 in, Split split, const Format& format) const {
  const bool scaled = format.has_scale();
  Found found;
  found.weight = entry("weight", format.element, {out, in}, split, scaled ? format.block : 1);
  store_->record(found.weight);
  if (scaled) {
    const Slice& slice = found.weight.slice;
    found.scale = entry("scale", DType::f32, {blocks_of(out), blocks_of(in)}, split, 1);
    if (slice.dim >= 0)  // the same cut in units of blocks
      found.scale.slice = {slice.dim, slice.start / format.block, slice.length / format.block};
    store_->record(found.scale);
  }
  if (dry()) return found;
  found.stored =
      scaled ? &store_->locate(found.weight, {DType::e4m3}) : &store_->locate(found.weight, {DType::bf16, DType::f32});
  if (scaled) found.stored_scale = &store_->locate(found.scale, {DType::f32, DType::bf16, DType::e8m0});
  return found;
}

Params::HostMatrix Params::read_matrix(i64 out, i64 in, Split split, const Format& format) const {
  const Found found = find_matrix(out, in, split, format);
  HostMatrix m{format.element, found.weight.shape(), found.scale.shape(), {}, {}};
  if (dry()) return m;
  m.dtype = found.stored->dtype;
  m.data.resize(static_cast<std::size_t>(m.shape.numel() * size_of(m.dtype)));
  store_->fetch(*found.stored, found.weight, m.data);
  if (format.has_scale()) m.scale = read_scale(found);
  return m;
}

std::vector<float> Params::read_scale(const Found& found) const {
  const DType dtype = found.stored_scale->dtype;
  std::vector<std::byte> bytes(static_cast<std::size_t>(found.scale.shape().numel() * size_of(dtype)));
  store_->fetch(*found.stored_scale, found.scale, bytes);
  return widen(bytes, dtype);
}

Weight Params::place(const Found& found, const std::function<Tensor()>& make_data,
                     const std::function<Tensor()>& make_scale) const {
  Weight w{store_->map(*found.stored, found.weight), {}};
  if (!w.data.defined()) store_->fetch_later(*found.stored, found.weight, w.data = make_data());
  if (found.stored_scale == nullptr) return w;
  const TensorInfo& scale = *found.stored_scale;
  if (scale.dtype == DType::f32) w.scale = store_->map(scale, found.scale);
  if (w.scale.defined()) return w;
  w.scale = make_scale();
  if (scale.dtype == DType::f32)
    store_->fetch_later(scale, found.scale, w.scale);
  else
    store_->backend_->upload(w.scale, read_scale(found).data());
  return w;
}

Weight Params::matrix(i64 out, i64 in, Split split, const Format& format) const {
  const Found found = find_matrix(out, in, split, format);
  const DType dtype = dry() ? format.element : found.stored->dtype;
  const auto data = [&] { return store_->allocate(dtype, found.weight.shape()); };
  const auto scale = [&] { return store_->allocate(DType::f32, found.scale.shape()); };
  Weight w = dry() ? Weight{data(), format.has_scale() ? scale() : Tensor{}} : place(found, data, scale);
  w.format = dtype == DType::f32 ? &kF32 : &format;
  return w;
}

Weight Params::stack(const std::string& leaf, i64 first, i64 n, i64 out, i64 in) const {
  const Format& format = args_->format();
  std::vector<Found> found;
  for (i64 i = 0; i < n; ++i) {
    found.push_back(sub(first + i).sub(leaf).find_matrix(out, in, Split::none, format));
    CHECK(dry() || found.back().stored->dtype == found.front().stored->dtype, "{}: experts are stored as {} and as {}",
          name(leaf), name_of(found.front().stored->dtype), name_of(found.back().stored->dtype));
  }
  const DType dtype = dry() ? format.element : found.front().stored->dtype;
  Weight all{{}, {}, dtype == DType::f32 ? &kF32 : &format};
  const auto data = [&]() -> Tensor& {
    return all.data.defined() ? all.data : all.data = store_->allocate(dtype, {n, out, in});
  };
  const auto scale = [&]() -> Tensor& {
    return all.scale.defined() ? all.scale
                               : all.scale = store_->allocate(DType::f32, {n, blocks_of(out), blocks_of(in)});
  };
  if (dry()) {
    data();
    if (format.has_scale()) scale();
    return all;
  }
  std::vector<Weight> matrices;
  for (i64 i = 0; i < n; ++i) {
    matrices.push_back(place(
        found[static_cast<std::size_t>(i)], [&] { return data()[i]; }, [&] { return scale()[i]; }));
    matrices.back().format = all.format;
  }
  if (!store_->map_) return all;
  all.data = Tensor(matrices.front().data.data(), dtype, {n, out, in});
  if (format.has_scale())
    all.scale = Tensor(matrices.front().scale.data(), DType::f32, {n, blocks_of(out), blocks_of(in)});
  all.apart = store_->keep(std::move(matrices));
  return all;
}

Tensor Params::vector(const std::string& leaf, i64 n) const {
  // Norms are stored as bf16, the gate's bias as float32.
  const ManifestEntry wanted = entry(leaf, leaf == "bias" ? DType::f32 : DType::bf16, {n}, Split::none, 1);
  store_->record(wanted);
  if (dry()) return store_->allocate(DType::f32, {n});
  const TensorInfo& stored = store_->locate(wanted, {DType::f32, DType::bf16});
  std::vector<std::byte> bytes(static_cast<std::size_t>(stored.bytes()));
  store_->fetch(stored, wanted, bytes);
  const Tensor y = store_->allocate(DType::f32, {n});
  store_->backend_->upload(y, widen(bytes, stored.dtype).data());
  return y;
}

std::vector<float> Params::host_matrix(i64 out, i64 in, Split split) const {
  const Format& format = args_->format();
  const HostMatrix m = read_matrix(out, in, split, format);
  if (dry()) return {};
  if (!format.has_scale()) return widen(m.data, m.dtype);
  std::vector<float> values(m.data.size());
  dequantize_weight(reinterpret_cast<const e4m3_bits*>(m.data.data()), m.scale.data(), m.shape[0], m.shape[1],
                    values.data());
  return values;
}

Tensor Params::derived(const Shape& shape, DType dtype, const Fill& fill) const {
  const Tensor y = store_->allocate(dtype, shape);
  if (dry() || y.numel() == 0) return y;
  std::vector<float> values(static_cast<std::size_t>(shape.numel() / shape[0]));
  std::vector<bf16_bits> rounded(dtype == DType::bf16 ? values.size() : 0);
  for (i64 i = 0; i < shape[0]; ++i) {
    fill(i, values);
    std::transform(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rounded.size()), rounded.begin(),
                   float_to_bf16);
    store_->backend_->upload(y[i], rounded.empty() ? static_cast<const void*>(values.data()) : rounded.data());
  }
  return y;
}

}  // namespace fathom
