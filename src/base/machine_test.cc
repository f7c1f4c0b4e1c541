#include "base/machine.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/thread_pool.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// A root with files of /proc and /sys.
class Machine : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    write("proc/meminfo", "MemTotal:       8000 kB\nMemFree:         100 kB\nMemAvailable:   5000 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  fs::path root_;
};

TEST_F(Machine, WithoutGroupsTheSystemsMemoryCounts) {
  const auto memory = host_memory(root_);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->free, 5000 * 1024);
  EXPECT_EQ(memory->total, 8000 * 1024);
  EXPECT_EQ(memory->limit, "this machine");
  EXPECT_FALSE(processor_quota(root_));
  EXPECT_FALSE(host_memory(root_ / "nowhere"));
}

TEST_F(Machine, GroupsOfVersion2) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  const fs::path outer = "sys/fs/cgroup/outer", inner = outer / "inner";
  write(inner / "memory.max", "max\n");
  write(inner / "cpu.max", "max 100000\n");
  write(outer / "memory.max", "3000000\n");
  write(outer / "memory.current", "1500000\n");
  write(outer / "memory.stat", "anon 7\ninactive_file 400000\n");
  write(outer / "cpu.max", "150000 100000\n");
  const auto memory = host_memory(root_);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->free, 3000000 - (1500000 - 400000));
  EXPECT_EQ(memory->total, 3000000);
  EXPECT_EQ(memory->limit, "this control group");
  EXPECT_EQ(processor_quota(root_), 1.5);
}

// In a container /proc names the host's group, and the mount is the group itself.
TEST_F(Machine, GroupsOfVersion1InAContainer) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/docker/12ab\n4:memory:/docker/12ab\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
  write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(host_memory(root_)->free, 1600000);
  EXPECT_FALSE(processor_quota(root_));
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(processor_quota(root_), 2.0);
}

TEST_F(Machine, ThisOneHasMemoryAndProcessors) {
  EXPECT_GT(host_memory()->free, 0);
  EXPECT_GE(physical_cores(), 1);
  EXPECT_LE(physical_cores(), processor_quota().value_or(1e9) + 1);
}

}  // namespace
}  // namespace fathom
