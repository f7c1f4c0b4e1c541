// Rows and elementwise operations: rows become float32 in cache, are worked on there, and are rounded once.
#include <algorithm>
#include <cstring>

#include "backends/cpu/act.h"
#include "backends/cpu/cpu_backend.h"

namespace fathom {
namespace {

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

// Long rows are worked on in pieces that stay in the nearest cache.
constexpr i64 kPiece = 2048;

std::uint32_t hash_of(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>(z >> 32);
}

}  // namespace

void CpuBackend::copy_row(void* y, DType y_type, const void* x, DType x_type, i64 n) const {
  if (y_type == x_type) {
    std::memcpy(y, x, static_cast<std::size_t>(n * size_of(x_type)));
    return;
  }
  float piece[kPiece];
  for (i64 i = 0; i < n; i += kPiece) {
    const i64 count = std::min(kPiece, n - i);
    kernels_.widen(piece, static_cast<const std::byte*>(x) + i * size_of(x_type), element_of(x_type), count);
    kernels_.narrow(static_cast<std::byte*>(y) + i * size_of(y_type), element_of(y_type), piece, count);
  }
}

void CpuBackend::run(const op::Embedding& op) {
  const Rows out(op.y), in(op.table);
  const auto* id = op.ids.as<std::int32_t>();
  parallel(out.count, out.width / 4, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) {
      const i64 row = id[i] - op.first;
      if (row >= 0 && row < in.count)
        copy_row(out.row(i), out.dtype, in.row(row), in.dtype, in.width);
      else
        std::memset(out.row(i), 0, static_cast<std::size_t>(out.width * size_of(out.dtype)));
    }
  });
}

void CpuBackend::run(const op::GatherRows& op) {
  const Rows out(op.y), in(op.x);
  const auto* row = op.rows.as<std::int32_t>();
  parallel(out.count, out.width / 4, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) copy_row(out.row(i), out.dtype, in.row(row[i]), in.dtype, in.width);
  });
}

void CpuBackend::run(const op::Copy& op) {
  const Tensor &y = op.y, &x = op.x;
  if (x.numel() == 0) return;
  const i64 width = x.rank() == 0 ? 1 : x.dim(x.rank() - 1);
  parallel(x.numel() / width, width / 4 + 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i)
      copy_row(at(y, row_offset(y, i)), y.dtype(), at(x, row_offset(x, i)), x.dtype(), width);
  });
}

void CpuBackend::run(const op::Add& op) {
  const Tensor &x = op.x, &y = op.y;
  const i64 n = x.numel(), pieces = (n + kPiece - 1) / kPiece;
  parallel(pieces, kPiece / 4, [&](i64 begin, i64 end, int) {
    float sum[kPiece], more[kPiece];
    for (i64 i = begin * kPiece; i < std::min(end * kPiece, n); i += kPiece) {
      const i64 count = std::min(kPiece, n - i);
      kernels_.widen(sum, at(x, i), element_of(x.dtype()), count);
      kernels_.widen(more, at(y, i), element_of(y.dtype()), count);
      kernels_.add(sum, more, count);
      kernels_.narrow(at(x, i), element_of(x.dtype()), sum, count);
    }
  });
}

void CpuBackend::run(const op::RmsNorm& op) {
  const Rows out(op.y), in(op.x);
  const auto* gain = op.norm.gain.as<float>();
  parallel(in.count, in.width / 4, [&](i64 begin, i64 end, int worker) {
    float* row = scratch(worker, in.width);
    for (i64 i = begin; i < end; ++i) {
      kernels_.widen(row, in.row(i), element_of(in.dtype), in.width);
      kernels_.rms_norm(row, row, gain, in.width, op.norm.eps);
      kernels_.narrow(out.row(i), element_of(out.dtype), row, in.width);
    }
  });
}

void CpuBackend::run(const op::FillRandom& op) {
  const Tensor& x = op.x;
  CHECK(x.dtype() == DType::f32 || x.dtype() == DType::bf16 || x.dtype() == DType::e4m3, "fill_random: {}",
        name_of(x.dtype()));
  const i64 n = x.numel(), pieces = (n + kPiece - 1) / kPiece;
  parallel(pieces, kPiece, [&](i64 begin, i64 end, int) {
    for (i64 i = begin * kPiece; i < std::min(end * kPiece, n); ++i) {
      const std::uint32_t bits = hash_of((op.seed << 40) + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u);
      const float unit = static_cast<float>(bits >> 8) * 0x1p-24f;
      if (x.dtype() == DType::e4m3)
        x.as<e4m3_bits>()[i] = static_cast<e4m3_bits>((bits & 0x80u) | (bits >> 8) % 0x78u);
      else if (x.dtype() == DType::bf16)
        x.as<bf16_bits>()[i] = float_to_bf16((unit - 0.5f) * 0.06f);
      else
        x.as<float>()[i] = x.rank() == 1 ? 0.9f + 0.2f * unit : 0x1p-12f * (0.5f + unit);
    }
  });
}

void CpuBackend::run(const op::SiluMul& op) {
  const Rows out(op.y), left(op.a), right(op.b);
  parallel(out.count, out.width, [&](i64 begin, i64 end, int worker) {
    float *gate = scratch(worker, 2 * out.width), *up = gate + out.width;
    for (i64 i = begin; i < end; ++i) {
      kernels_.widen(gate, left.row(i), element_of(left.dtype), out.width);
      kernels_.widen(up, right.row(i), element_of(right.dtype), out.width);
      kernels_.silu_mul(gate, gate, up, out.width);
      kernels_.narrow(out.row(i), element_of(out.dtype), gate, out.width);
    }
  });
}

}  // namespace fathom
