#include "kernels/cpu/kernels.h"

namespace fathom {

Isa best_isa() {
  if (has_isa(Isa::avx512)) return Isa::avx512;
  return has_isa(Isa::avx2) ? Isa::avx2 : Isa::generic;
}

const char* name_of(Isa isa) {
  if (isa == Isa::avx512) return "avx512";
  return isa == Isa::avx2 ? "avx2" : "generic";
}

}  // namespace fathom
