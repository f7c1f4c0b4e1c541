// The CPU backends under test: one for each instruction set of this machine.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "backends/cpu/cpu_backend.h"

namespace fathom::test {

inline void for_each_backend(const std::function<void(Backend&)>& test) { test(*make_cpu_backend(2)); }

}  // namespace fathom::test
