#include "model/params.h"

#include <array>
#include <cstring>

namespace fathom {
namespace {

// The tensors of a matrix.
constexpr std::array kParts = {"weight", "scale", "zero"};

Tensor& part_of(Weight& w, std::size_t part) { return part == 0 ? w.data : part == 1 ? w.scale : w.zero; }

// Type and shape of a tensor of a matrix [out, in].
std::pair<DType, Shape> layout(const Format& format, std::size_t part, i64 out, i64 in) {
  if (part == 0) return {format.element(), format.data_shape(out, in)};
  return {part == 1 ? format.scale_type() : format.zero_type(), format.scale_shape(out, in)};
}

std::size_t count_parts(const Format& format) { return format.has_zero() ? 3 : format.has_scale() ? 2 : 1; }

// The part of one of its tensors that belongs to a part of a matrix.
Slice cut_of(const Format& format, std::size_t part, i64 out, i64 in, Slice numbers) {
  const auto along = [&](i64 n) {
    return layout(format, part, numbers.dim == 0 ? n : out, numbers.dim == 1 ? n : in).second[numbers.dim];
  };
  return numbers.dim < 0 ? numbers : Slice{numbers.dim, along(numbers.start), along(numbers.length)};
}

bool is_plain(const Format& format) { return &format == &kF32 || &format == &kBf16; }

// Numbers stored as float32 or bf16.
std::vector<float> widen(std::span<const std::byte> bytes, DType dtype) {
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(size_of(dtype)));
  const Format& format = dtype == DType::f32 ? kF32 : kBf16;
  format.dequantize(bytes.data(), nullptr, nullptr, 1, static_cast<i64>(values.size()), values.data());
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

Params Params::sub(const std::string& leaf) const {
  Params deeper = *this;
  deeper.prefix_ = name(leaf);
  return deeper;
}

Slice Params::cut(i64 out, i64 in, Split split, const Format& format) const {
  if (split == Split::none || world_size() == 1) return {};
  const int dim = split == Split::out ? 0 : 1;
  const i64 n = dim == 0 ? out : in, length = n / world_size(), unit = format.unit(dim);
  CHECK(n % world_size() == 0,
        "{} features must be divisible by world size (world_size={}): {} has {}; sizes that work: {}",
        dim == 0 ? "Output" : "Input", world_size(), name("weight"), n, working_sizes(n, unit));
  CHECK(length % unit == 0,
        "{}: a cut of dimension {} ({} entries) among {} ranks falls inside a block of {} ({}); sizes that work: {}",
        name("weight"), dim, n, world_size(), unit, format.name(), working_sizes(n, unit));
  return {dim, length * rank(), length};
}

ManifestEntry Params::entry(const std::string& leaf, DType dtype, const Shape& shape, const Slice& slice,
                            i64 parameters) const {
  return {{name(leaf), dtype, shape}, slice, group_of(name(leaf), *args_), parameters};
}

Params::Found Params::find(i64 out, i64 in, Split split, const Format& format) const {
  const Slice part = cut(out, in, split, format);
  Found found{&format, part.dim == 0 ? part.length : out, part.dim == 1 ? part.length : in, {}};
  for (std::size_t i = 0; i < count_parts(format); ++i) {
    const auto [dtype, shape] = layout(format, i, out, in);
    ManifestEntry wanted = entry(kParts[i], dtype, shape, cut_of(format, i, out, in, part), i == 0 ? out * in : 0);
    if (i == 0) wanted.format = &format;
    store_->record(wanted);
    found.parts.push_back({wanted, dry() ? nullptr : &store_->locate(wanted, {dtype})});
  }
  return found;
}

std::vector<float> Params::read(const Found& found) const {
  std::array<std::vector<std::byte>, kParts.size()> bytes;
  for (std::size_t i = 0; i < found.parts.size(); ++i)
    bytes[i] = store_->fetch(*found.parts[i].stored, found.parts[i].entry);
  std::vector<float> values(static_cast<std::size_t>(found.out * found.in));
  found.format->dequantize(bytes[0].data(), bytes[1].data(), bytes[2].data(), found.out, found.in, values.data());
  return values;
}

Weight Params::place(const Found& found, const Format& format, const Room& room) const {
  Weight w{{}, {}, &format, nullptr, {}, {found.out, found.in}};
  for (std::size_t i = 0; i < count_parts(format); ++i) {
    Tensor& x = part_of(w, i);
    if (dry()) {
      x = room(i);
    } else if (&format != found.format) {
      store_->upload(x = room(i), read(found));
    } else {
      const auto& [wanted, stored] = found.parts[i];
      x = store_->map(*stored, wanted);
      if (!x.defined()) store_->fetch_later(*stored, wanted, x = room(i));
    }
  }
  return w;
}

Weight Params::place(const Found& found) const {
  const Format& format = store_->device_format(*found.format, options_->compute);
  return place(found, format, [&](std::size_t part) {
    const auto [dtype, shape] = layout(format, part, found.out, found.in);
    return store_->allocate(dtype, shape);
  });
}

Weight Params::matrix(i64 out, i64 in, Split split, const Format& configured) const {
  return place(find(out, in, split, store_->stored_format(prefix_, configured)));
}

Weight Params::plain_matrix(i64 out, i64 in, Split split) const {
  const Format& stored = store_->stored_format(prefix_, kBf16);
  return place(find(out, in, split, &stored == &kF32 ? stored : kBf16));
}

Weight Params::stack(const std::string& leaf, i64 first, i64 n, i64 out, i64 in) const {
  std::vector<Found> found;
  const Format* common = nullptr;
  for (i64 i = 0; i < n; ++i) {
    const Params p = sub(first + i).sub(leaf);
    found.push_back(p.find(out, in, Split::none, store_->stored_format(p.prefix_, args_->format())));
    const Format* own = found.back().format;
    CHECK(i == 0 || own == common || (is_plain(*own) && is_plain(*common)),
          "tensor {} is stored as {}, that of other experts as {}", store_->stored_name(p.name("weight")), own->name(),
          common->name());
    common = i == 0 || own == common ? own : &kF32;  // which holds the numbers of both
  }
  const Format& format = store_->device_format(*common, options_->compute);
  Weight all{{}, {}, &format, nullptr, {}, {n, out, in}};
  const auto whole = [&](std::size_t part) {
    const auto [dtype, shape] = layout(format, part, out, in);
    return std::pair{dtype, Shape{n, shape[0], shape[1]}};
  };
  std::vector<Weight> matrices;
  for (i64 i = 0; i < n; ++i)
    matrices.push_back(place(found[static_cast<std::size_t>(i)], format, [&](std::size_t part) {
      Tensor& x = part_of(all, part);
      if (!x.defined()) x = store_->allocate(whole(part).first, whole(part).second);
      return x[i];
    }));
  if (dry() || !store_->map_) return all;
  for (std::size_t part = 0; part < count_parts(format); ++part)
    part_of(all, part) = Tensor(part_of(matrices.front(), part).data(), whole(part).first, whole(part).second);
  all.apart = store_->keep(std::move(matrices));
  return all;
}

Tensor Params::vector(const std::string& leaf, i64 n) const {
  // Norms are stored as bf16, the gate's bias as float32.
  const ManifestEntry wanted = entry(leaf, leaf == "bias" ? DType::f32 : DType::bf16, {n}, {}, n);
  store_->record(wanted);
  if (dry()) return store_->allocate(DType::f32, {n});
  const TensorInfo& stored = store_->locate(wanted, {DType::f32, DType::bf16});
  const std::vector<float> values = widen(store_->fetch(stored, wanted), stored.dtype);
  const Tensor y = store_->allocate(DType::f32, {n});
  store_->upload(y, values);
  return y;
}

std::vector<float> Params::host_matrix(i64 out, i64 in, Split split) const {
  const Found found = find(out, in, split, store_->stored_format(prefix_, args_->format()));
  return dry() ? std::vector<float>{} : read(found);
}

Tensor Params::derived(const Shape& shape, DType dtype, const Fill& fill) const {
  const Tensor y = store_->allocate(dtype, shape);
  if (dry() || y.numel() == 0) return y;
  std::vector<float> values(static_cast<std::size_t>(shape.numel() / shape[0]));
  for (i64 i = 0; i < shape[0]; ++i) {
    fill(i, values);
    store_->upload(y[i], values);
  }
  return y;
}

}  // namespace fathom
