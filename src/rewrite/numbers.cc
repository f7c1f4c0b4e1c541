#include "rewrite/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/numeric.h"
#include "base/thread_pool.h"
#include "checkpoint/json_text.h"
#include "rewrite/pieces.h"

namespace fathom {
namespace {

bool is_scale(const TensorInfo& info) {
  const bool known = info.dtype == DType::f32 || info.dtype == DType::bf16 || info.dtype == DType::e8m0;
  return known && (info.name.ends_with(".scale") || info.name.ends_with("_scale_inv") || info.name.ends_with("_scale"));
}

float number_at(const TensorInfo& info, std::span<const std::byte> bytes, std::size_t i) {
  if (info.dtype == DType::e8m0) return e8m0_to_float(static_cast<e8m0_bits>(bytes[i]));
  std::uint32_t bits = 0;
  const auto size = static_cast<std::size_t>(size_of(info.dtype));
  std::memcpy(&bits, bytes.data() + i * size, size);
  return info.dtype == DType::f32 ? std::bit_cast<float>(bits) : bf16_to_float(static_cast<bf16_bits>(bits));
}

// The bits of a floating-point type by what they tell.
struct Layout {
  std::uint32_t magnitude;   // all but the sign; 0 where no code is zero
  std::uint32_t not_finite;  // all set: NaN or infinity
  bool infinities;           // those without further bits are infinities
};

std::optional<Layout> layout_of(DType dtype) {
  if (dtype == DType::f32) return Layout{0x7fffffff, 0x7f800000, true};
  if (dtype == DType::bf16) return Layout{0x7fff, 0x7f80, true};
  if (dtype == DType::f16) return Layout{0x7fff, 0x7c00, true};
  if (dtype == DType::e4m3) return Layout{0x7f, 0x7f, false};
  if (dtype == DType::e8m0) return Layout{0, 0xff, false};
  return std::nullopt;
}

// What was seen of a tensor so far.
struct Seen {
  i64 entries = 0;
  std::uint32_t any = 0;  // magnitudes of the matrix that is being read, or-ed
  std::string fault;
};

template <typename Bits>
void look(std::span<const std::byte> piece, const Layout& layout, Seen& seen) {
  const auto count = static_cast<i64>(piece.size() / sizeof(Bits));
  for (i64 i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, piece.data() + static_cast<std::size_t>(i) * sizeof(Bits), sizeof(Bits));
    seen.any |= bits & layout.magnitude;
    if ((bits & layout.not_finite) != layout.not_finite) continue;
    const bool infinite = layout.infinities && (bits & layout.magnitude) == layout.not_finite;
    const char* sign = (bits & ~layout.magnitude) != 0 && infinite ? "-" : "";
    seen.fault = fmt::format("holds {}{} at entry {}", sign, infinite ? "inf" : "nan", seen.entries + i);
    return;
  }
  seen.entries += count;
}

void look(std::span<const std::byte> piece, i64 element, const Layout& layout, Seen& seen) {
  if (element == 4)
    look<std::uint32_t>(piece, layout, seen);
  else if (element == 2)
    look<std::uint16_t>(piece, layout, seen);
  else
    look<std::uint8_t>(piece, layout, seen);
}

// What is wrong with a tensor; empty when nothing is.
std::string fault_of(const SafetensorsFile& file, const TensorInfo& info, const Layout& layout) {
  const int rank = info.shape.rank();
  const bool matrices = rank >= 2 && layout.magnitude != 0;
  const i64 size = matrices ? info.shape[rank - 2] * info.shape[rank - 1] : info.shape.numel();
  Pieces pieces(file, info);
  Seen seen;
  for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next())
    while (!piece.empty()) {
      const i64 left = (size - seen.entries % size) * size_of(info.dtype);
      const auto part = piece.first(std::min(piece.size(), static_cast<std::size_t>(left)));
      piece = piece.subspan(part.size());
      look(part, size_of(info.dtype), layout, seen);
      if (!seen.fault.empty()) return seen.fault;
      if (seen.entries % size != 0) continue;
      if (matrices && seen.any == 0)
        return size == info.shape.numel()
                   ? "is a matrix of zeros"
                   : fmt::format("holds a matrix of zeros, {} of {}", seen.entries / size, info.shape.numel() / size);
      seen.any = 0;
    }
  return {};
}

}  // namespace

std::vector<std::string> check_scales(const SafetensorsFile& file) {
  std::vector<std::string> faults;
  for (const TensorInfo& info : file.tensors()) {
    if (!is_scale(info)) continue;
    const auto bytes = file.bytes(info.name);
    for (std::size_t i = 0; i < static_cast<std::size_t>(info.shape.numel()); ++i) {
      const float value = number_at(info, bytes, i);
      if (std::isfinite(value) && value > 0) continue;
      faults.push_back(fmt::format("{}: scale {} holds {} at entry {}", file.path().filename().string(),
                                   shown(info.name), value, i));
      break;
    }
  }
  return faults;
}

NumbersReport check_numbers(const std::vector<std::unique_ptr<SafetensorsFile>>& files, int threads,
                            const std::function<void(i64 done, i64 total)>& progress) {
  struct Place {
    const SafetensorsFile* file;
    const TensorInfo* info;
  };
  NumbersReport report;
  std::vector<Place> places;
  for (const auto& file : files)
    for (const TensorInfo& info : file->tensors()) {
      if (is_scale(info)) continue;
      if (layout_of(info.dtype)) {
        places.push_back({file.get(), &info});
        report.bytes += info.bytes();
      } else {
        report.skipped.push_back(shown(info.name));
      }
    }
  std::vector<std::string> faults(places.size());
  std::mutex mutex;
  i64 done = 0;
  ThreadPool(threads).parallel_for(static_cast<i64>(places.size()), 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const Place& place = places[at];
      faults[at] = fault_of(*place.file, *place.info, *layout_of(place.info->dtype));
      const std::lock_guard lock(mutex);
      done += place.info->bytes();
      if (progress) progress(done, report.bytes);
    }
  });
  for (std::size_t i = 0; i < places.size(); ++i)
    if (!faults[i].empty())
      report.faults.push_back(fmt::format("{}: tensor {} {}", places[i].file->path().filename().string(),
                                          shown(places[i].info->name), faults[i]));
  return report;
}

}  // namespace fathom
