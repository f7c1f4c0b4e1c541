// Products with weights of any format. A weight whose format the backend has no kernel for is dequantised into the
// arena, a bounded part at a time: scratch like any other, so it is counted when a pass is measured.
#pragma once

#include <functional>
#include <initializer_list>

#include "ops/context.h"

namespace fathom::ops {

// Whether the backend's products take all of these weights as they are.
bool supported(const Context& ctx, std::initializer_list<std::reference_wrapper<const Weight>> weights);

// y [N, out] = x [N, in] w^T
void linear_into(Context& ctx, const Tensor& y, const Tensor& x, const Weight& w);

// Rows offsets[e] .. offsets[e + 1] of x [R, in] times matrix e of w [E, out, in]; other rows of y are left alone.
void grouped_linear_into(Context& ctx, const Tensor& y, const Tensor& x, const Weight& w, const Tensor& offsets);

}  // namespace fathom::ops
