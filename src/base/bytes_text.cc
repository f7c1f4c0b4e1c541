#include "base/bytes_text.h"

#include <iterator>

namespace fathom {

std::string bytes_text(i64 bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) value /= 1000, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", value, value < 99.5 ? 1 : 0, kUnits[unit]);
}

std::string memory_text(i64 bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= i64{1} << 30) return fmt::format("{:.2f} GiB", value / (i64{1} << 30));
  if (bytes >= i64{1} << 20) return fmt::format("{:.1f} MiB", value / (i64{1} << 20));
  return fmt::format("{:.1f} KiB", value / 1024);
}

}  // namespace fathom
