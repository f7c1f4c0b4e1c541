// Other processors than x86-64: the kernels that are written in vectors of the compiler.
#include "kernels/cpu/kernels.h"

namespace fathom {

bool has_isa(Isa isa) { return isa == Isa::generic; }

const CpuKernels& cpu_kernels(Isa) { return generic_kernels(); }

}  // namespace fathom
