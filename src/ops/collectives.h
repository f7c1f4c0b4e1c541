// What ranks do together. A device carries it out as it does everything else: enqueued on a GPU, waited for on a CPU.
// See rows.h for the conventions.
#pragma once

#include "comm/communicator.h"
#include "ops/rows.h"

namespace fathom {
namespace op {

// x becomes the sum of all ranks' x, in the order of the ranks in float32, so that all of them agree. Contiguous act.
struct AllReduce {
  Tensor x;
  Communicator& comm;
  static constexpr const char* kName = "all_reduce";
  void each(auto&& f) { f(x); }
};

// h += the sum of all ranks' y, in the order of the ranks in float32. Contiguous, h float32, y act; y may be changed.
struct AddReduced {
  Tensor h, y;
  Communicator& comm;
  static constexpr const char* kName = "add_reduced_";
  void each(auto&& f) { f(h), f(y); }
};

// y [size, ...] becomes every rank's x [...], in the order of the ranks. Contiguous.
struct AllGather {
  Tensor y, x;
  Communicator& comm;
  static constexpr const char* kName = "all_gather";
  void each(auto&& f) { f(y), f(x); }
};

}  // namespace op

namespace ops {

void all_reduce(Context& ctx, const Tensor& x);
// The ranks' columns x [N, part] side by side: [N, size * part].
Tensor gather_columns(Context& ctx, const Tensor& x);
// h float32 [T, dim] += the sum over the ranks of y [T, dim]; gives the next norm of h. y may be changed.
Normed reduce_add_norm(Context& ctx, const Tensor& h, const Tensor& y, const Norm& next);

}  // namespace ops
}  // namespace fathom
