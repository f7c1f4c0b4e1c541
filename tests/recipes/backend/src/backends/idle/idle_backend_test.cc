#include "backends/idle/idle_backend.h"

#include <gtest/gtest.h>

#include "backends/create.h"

namespace fathom {
namespace {

TEST(IdleBackend, IsADeviceOfTheTable) {
  EXPECT_EQ(create_backend("idle", 1)->name(), "idle");
  EXPECT_NE(known_devices().find("idle"), std::string::npos);
}

}  // namespace
}  // namespace fathom
