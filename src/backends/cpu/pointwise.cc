// Rows and elementwise operations.
#include <cmath>
#include <cstring>

#include "backends/cpu/act.h"
#include "backends/cpu/cpu_backend.h"
#include "quant/fp8_block.h"

namespace fathom {
namespace {

template <typename Y, typename X>
void convert(Y* y, const X* x, i64 n) {
  for (i64 i = 0; i < n; ++i) store(y[i], widen(x[i]));
}

void copy_row(void* y, DType y_type, const void* x, DType x_type, i64 n) {
  if (y_type == x_type) {
    std::memcpy(y, x, static_cast<std::size_t>(n * size_of(x_type)));
    return;
  }
  visit_act(Tensor(y, y_type, {n}), [&](auto* out) {
    visit_act(Tensor(const_cast<void*>(x), x_type, {n}), [&](auto* in) { convert(out, in, n); });
  });
}

// Element offset of row `index` of all leading dimensions taken together.
i64 row_offset(const Tensor& x, i64 index) {
  i64 offset = 0;
  for (int d = x.rank() - 2; d >= 0; --d) {
    offset += index % x.dim(d) * x.stride(d);
    index /= x.dim(d);
  }
  return offset;
}

void* at(const Tensor& x, i64 offset) { return static_cast<std::byte*>(x.data()) + offset * size_of(x.dtype()); }

}  // namespace

void CpuBackend::embedding(const Tensor& y, const Tensor& table, const Tensor& ids, i64 first) {
  const Rows out(y), in(table);
  const auto* id = ids.as<std::int32_t>();
  parallel(out.count, out.width / 4, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) {
      const i64 row = id[i] - first;
      if (row >= 0 && row < in.count)
        copy_row(out.row(i), out.dtype, in.row(row), in.dtype, in.width);
      else
        std::memset(out.row(i), 0, static_cast<std::size_t>(out.width * size_of(out.dtype)));
    }
  });
}

void CpuBackend::gather_rows(const Tensor& y, const Tensor& x, const Tensor& rows) {
  const Rows out(y), in(x);
  const auto* row = rows.as<std::int32_t>();
  parallel(out.count, out.width / 4, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) copy_row(out.row(i), out.dtype, in.row(row[i]), in.dtype, in.width);
  });
}

void CpuBackend::cast(const Tensor& y, const Tensor& x) {
  if (x.numel() == 0) return;
  const i64 width = x.rank() == 0 ? 1 : x.dim(x.rank() - 1);
  parallel(x.numel() / width, width / 4 + 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i)
      copy_row(at(y, row_offset(y, i)), y.dtype(), at(x, row_offset(x, i)), x.dtype(), width);
  });
}

void CpuBackend::add_(const Tensor& x, const Tensor& y) {
  visit_act(x, [&](auto* to) {
    visit_act(y, [&](auto* from) {
      parallel(x.numel(), 1, [&](i64 begin, i64 end, int) {
        for (i64 i = begin; i < end; ++i) store(to[i], widen(to[i]) + widen(from[i]));
      });
    });
  });
}

void CpuBackend::rms_norm(const Tensor& y, const Tensor& x, const Tensor& weight, float eps) {
  const Rows out(y), in(x);
  const auto* w = weight.as<float>();
  const auto row = [&](auto* to, const auto* from) {
    float sum = 0;
    for (i64 i = 0; i < in.width; ++i) sum += widen(from[i]) * widen(from[i]);
    const float factor = 1.0f / std::sqrt(sum / static_cast<float>(in.width) + eps);
    for (i64 i = 0; i < in.width; ++i) store(to[i], widen(from[i]) * factor * w[i]);
  };
  visit_act(y, [&](auto* to) {
    visit_act(x, [&](auto* from) {
      parallel(in.count, in.width, [&](i64 begin, i64 end, int) {
        for (i64 i = begin; i < end; ++i)
          row(static_cast<decltype(to)>(out.row(i)), static_cast<decltype(from)>(in.row(i)));
      });
    });
  });
}

void CpuBackend::silu_mul(const Tensor& y, const Tensor& a, const Tensor& b) {
  const Rows out(y), left(a), right(b);
  visit_act(y, [&](auto* to) {
    visit_act(a, [&](auto* gate) {
      visit_act(b, [&](auto* up) {
        parallel(out.count, out.width * 4, [&](i64 begin, i64 end, int) {
          for (i64 r = begin; r < end; ++r) {
            auto* o = static_cast<decltype(to)>(out.row(r));
            const auto* g = static_cast<decltype(gate)>(left.row(r));
            const auto* u = static_cast<decltype(up)>(right.row(r));
            for (i64 i = 0; i < out.width; ++i) {
              const float value = widen(g[i]);
              store(o[i], value / (1.0f + std::exp(-value)) * widen(u[i]));
            }
          }
        });
      });
    });
  });
}

void CpuBackend::quantize(const Tensor& codes, const Tensor& scales, const Tensor& x, bool power_of_two) {
  const Rows in(x), out(codes), factors(scales);
  parallel(in.count, in.width * 4, [&](i64 begin, i64 end, int worker) {
    float* row = scratch(worker, in.width);
    for (i64 i = begin; i < end; ++i) {
      copy_row(row, DType::f32, in.row(i), in.dtype, in.width);
      quantize_activation(row, in.width, power_of_two, static_cast<e4m3_bits*>(out.row(i)),
                          static_cast<float*>(factors.row(i)));
    }
  });
}

}  // namespace fathom
