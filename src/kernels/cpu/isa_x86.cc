// Instruction sets of x86-64 processors.
#include <cpuid.h>

#include "kernels/cpu/kernels.h"

namespace fathom {
namespace {

// Not every compiler's __builtin_cpu_supports knows the name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

bool has_isa(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && has_isa(Isa::avx2);
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case Isa::generic:
      return true;
  }
  return false;
}

const CpuKernels& cpu_kernels(Isa isa) {
  if (isa == Isa::avx512) return avx512_kernels();
  return isa == Isa::avx2 ? avx2_kernels() : generic_kernels();
}

}  // namespace fathom
