#include "base/machine.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string_view>
#include <vector>

namespace fathom {
namespace {

namespace fs = std::filesystem;

// The number in a file of one; nothing for "max" or where it cannot be read.
std::optional<i64> number_in(const fs::path& file) {
  std::ifstream in(file);
  i64 value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

// The number after `key` at the beginning of a line: "key: 12 kB", "key 12".
std::optional<i64> number_of(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    i64 value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

// Calls `visit` with each folder that limits this process: its group and those around it. `controller` is one of
// version 1; groups of version 2 have all.
void each_group(const fs::path& root, const std::string& controller,
                const std::function<void(const fs::path&)>& visit) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // 4:memory,other:/path, or 0::/path
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + controller + ",") == std::string::npos) continue;
    const fs::path base = root / "sys/fs/cgroup" / (unified ? "" : controller);
    // In a container the path is the host's, whose end may be missing here: then the mount itself is the group.
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (; !group.empty(); group = group.parent_path()) visit(base / group);
    visit(base);
  }
}

}  // namespace

std::optional<HostMemory> host_memory(const fs::path& root) {
  const auto available = number_of(root / "proc/meminfo", "MemAvailable:"),
             total = number_of(root / "proc/meminfo", "MemTotal:");
  if (!available || !total) return std::nullopt;
  HostMemory memory{*available * 1024, *total * 1024, "this machine"};
  const auto take = [&](std::optional<i64> limit, std::optional<i64> used, i64 reclaimable) {
    if (!limit || !used || *limit >= memory.total) return;
    const i64 free = std::max<i64>(*limit - std::max<i64>(*used - reclaimable, 0), 0);
    if (free < memory.free) memory = {free, *limit, "this control group"};
  };
  each_group(root, "memory", [&](const fs::path& group) {
    take(number_in(group / "memory.max"), number_in(group / "memory.current"),
         number_of(group / "memory.stat", "inactive_file").value_or(0));
    take(number_in(group / "memory.limit_in_bytes"), number_in(group / "memory.usage_in_bytes"),
         number_of(group / "memory.stat", "total_inactive_file").value_or(0));
  });
  return memory;
}

std::optional<double> processor_quota(const fs::path& root) {
  std::optional<double> least;
  const auto take = [&](i64 quota, i64 period) {
    if (quota <= 0 || period <= 0) return;  // -1: no limit
    const double processors = static_cast<double>(quota) / static_cast<double>(period);
    least = std::min(least.value_or(processors), processors);
  };
  each_group(root, "cpu", [&](const fs::path& group) {
    std::ifstream in(group / "cpu.max");  // "150000 100000", or "max 100000"
    i64 quota = 0, period = 0;
    if (in >> quota >> period) take(quota, period);
    take(number_in(group / "cpu.cfs_quota_us").value_or(0), number_in(group / "cpu.cfs_period_us").value_or(0));
  });
  return least;
}

}  // namespace fathom
