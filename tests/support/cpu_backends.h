// The CPU backends under test: one for each instruction set of this machine.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "backends/cpu/cpu_backend.h"

namespace fathom::test {

inline void for_each_backend(const std::function<void(Backend&)>& test) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (!has_isa(isa)) continue;
    SCOPED_TRACE(name_of(isa));
    CpuBackend backend(2, isa);
    test(backend);
  }
}

}  // namespace fathom::test
