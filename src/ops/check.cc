#include "ops/check.h"

namespace fathom::ops {

void check_shape(const char* op, const char* what, const Tensor& x, const Shape& expected) {
  CHECK(x.shape() == expected, "{}: {} has shape {}, expected {}", op, what, to_string(x.shape()), to_string(expected));
}

void check_activation(const char* op, const char* what, const Tensor& x, int rank) {
  CHECK(is_activation(x), "{}: {} is {}, expected f32 or bf16", op, what, name_of(x.dtype()));
  CHECK(x.rank() == rank, "{}: {} has shape {}, expected {} dimensions", op, what, to_string(x.shape()), rank);
  CHECK(x.numel() == 0 || x.stride(rank - 1) == 1, "{}: the last dimension of {} is not contiguous", op, what);
}

void check_integers(const char* op, const char* what, const Tensor& x, const Shape& expected) {
  CHECK(x.dtype() == DType::i32, "{}: {} is {}, expected i32", op, what, name_of(x.dtype()));
  check_shape(op, what, x, expected);
}

}  // namespace fathom::ops
