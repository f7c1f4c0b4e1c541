// The operations as plain loops in double precision, on vectors of the tensors' own values. Nothing here is shared with
// the code under test.
#pragma once

#include <vector>

#include "support/host_tensor.h"

namespace fathom::test {

inline std::size_t at(i64 i) { return static_cast<std::size_t>(i); }

// y [t, out] = x [t, in] w [out, in]^T
std::vector<Expected> matmul(const std::vector<double>& x, const std::vector<double>& w, i64 t, i64 out, i64 in);

// Values of a weight stored as codes and block scales.
std::vector<double> dequantized(const std::vector<double>& codes, const std::vector<double>& scales, i64 out, i64 in,
                                i64 block);

// softmax(scale * q . k) v over n keys; k [n, dk], v [n, dv] with the given row steps.
std::vector<Expected> attend(const double* q, const double* k, const double* v, i64 n, i64 dk, i64 dv, i64 k_step,
                             i64 v_step, double scale);

}  // namespace fathom::test
