#include "backends/create.h"

#include <charconv>

#include "backends/devices.h"

namespace fathom {
namespace {

// The N of "name:N".
int index_of(const std::string& device, std::size_t colon) {
  int index = 0;
  const char *begin = device.data() + colon + 1, *end = device.data() + device.size();
  const auto [last, error] = std::from_chars(begin, end, index);
  CHECK(begin != end && error == std::errc() && last == end && index >= 0,
        "device '{}': after the colon stands the number of the device, such as cuda:0", device);
  return index;
}

std::unique_ptr<Backend> best_device(int threads, std::string& choice) {
  for (const DeviceRow& row : device_table()) {
    std::string description;
    const bool usable = row.usable(description);
    choice += fmt::format("{}{} ({})", choice.empty() ? "" : "; ", usable ? row.name : fmt::format("not {}", row.name),
                          description);
    if (usable) return row.make(0, threads);
  }
  fail("no device works here: {}", choice);
}

}  // namespace

std::vector<std::string> usable_devices() {
  std::vector<std::string> names;
  std::string description;
  for (const DeviceRow& row : device_table())
    if (row.usable(description)) names.emplace_back(row.name);
  return names;
}

std::string known_devices() {
  std::string known = "auto";
  for (const DeviceRow& row : device_table()) known += fmt::format(", {}", row.name);
  return known;
}

std::unique_ptr<Backend> create_backend(const std::string& device, int threads, std::string* choice) {
  std::string taken;
  if (device == "auto") {
    auto backend = best_device(threads, taken);
    if (choice != nullptr) *choice = taken;
    return backend;
  }
  const std::size_t colon = device.find(':');
  const std::string name = device.substr(0, colon);
  for (const DeviceRow& row : device_table()) {
    if (row.name != name) continue;
    const int index = colon == std::string::npos ? 0 : index_of(device, colon);
    if (choice != nullptr) *choice = fmt::format("{} (asked for)", device);
    return row.make(index, threads);
  }
  fail("unknown device '{}'; known devices: {}", device, known_devices());
}

}  // namespace fathom
