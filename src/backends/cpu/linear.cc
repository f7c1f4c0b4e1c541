// Products with weights: activations become padded float32 rows, then pieces of the output go to the threads.
#include <algorithm>
#include <span>

#include "backends/cpu/act.h"
#include "backends/cpu/cpu_backend.h"
#include "quant/fp8_block.h"

namespace fathom {
namespace {

// Packed activations are kept below this many floats: larger products are done in rounds of rows.
constexpr i64 kPackedFloats = i64{4} << 20;

// Pieces of a product do not get smaller than this, in nanoseconds.
constexpr i64 kSmallestShare = 4000;

// Nanoseconds of a product of `rows` rows with one row of a weight, roughly.
i64 row_work(i64 rows, i64 in) { return rows <= 2 ? in / 16 + 1 : in * (rows + 8) / 64 + 1; }

WeightRows rows_of(const Weight& w) {
  const Tensor& scale = w.scale;
  return {w.data.data(), w.data.stride(0) * size_of(w.data.dtype()), element_of(w.data.dtype()),
          scale.defined() ? scale.as<float>() : nullptr, scale.defined() ? scale.stride(0) : 0};
}

// Quantises a row and puts code * scale back.
void round_to_fp8(const CpuKernels& kernels, float* x, i64 n, bool power_of_two) {
  e4m3_bits codes[kFp8Block];
  float scale;
  const WeightRows coded{codes, 0, Element::e4m3, &scale, 0};
  for (i64 i = 0; i < n; i += kFp8Block) {
    kernels.quantize(codes, &scale, x + i, kFp8Block, power_of_two);
    kernels.decode_row(x + i, coded, 0, kFp8Block);
  }
}

// A piece of work: rows [row, row + rows) of the round, columns [column, column + columns) of part `part`.
struct Piece {
  std::size_t part;
  i64 row, rows, column, columns;
};

// Cuts rows x out into pieces: few rows at a time keep operands in cache, many columns keep threads apart.
void cut(std::vector<Piece>& pieces, std::size_t part, i64 row, i64 rows, i64 out, i64 columns) {
  const i64 step = rows > 2 * kGemmRows ? kGemmRows : kGemmRows / 2;
  for (i64 r = 0; r < rows; r += step)
    for (i64 c = 0; c < out; c += columns)
      pieces.push_back({part, row + r, std::min(step, rows - r), c, std::min(columns, out - c)});
}

}  // namespace

void CpuBackend::multiply(const Tensor& y, const Tensor& x, std::span<const Part> parts, GemmMode mode) {
  const i64 width = x.dim(x.rank() - 1);
  const bool quantised = mode == GemmMode::fp8 && !parts.empty() && parts[0].weight.format->activation_group() > 0;
  CHECK(!quantised || width % kFp8Block == 0,
        "Last dimension size must be divisible by block_size (block_size={}), it is {}", kFp8Block, width);
  const i64 limit = std::max<i64>(kPackedFloats / padded_step(width) / kGemmRows, 1) * kGemmRows;
  std::vector<Part> round;
  i64 taken = 0;
  for (Part part : parts)
    while (part.rows > 0) {
      const i64 rows = std::min(part.rows, limit - taken);
      round.push_back({part.weight, part.first, rows});
      part.first += rows;
      part.rows -= rows;
      taken += rows;
      if (taken < limit) continue;
      multiply_round(y, x, round, quantised);
      round.clear();
      taken = 0;
    }
  if (!round.empty()) multiply_round(y, x, round, quantised);
}

void CpuBackend::multiply_round(const Tensor& y, const Tensor& x, std::span<const Part> parts, bool quantised) {
  const Rows out(y), in(x);
  const i64 width = in.width, step = padded_step(width), first = parts.front().first;
  const i64 count = parts.back().first + parts.back().rows - first;
  const float* packed = pack_rows(in, first, count, quantised ? parts.front().weight.format : nullptr);
  i64 work = 0;
  for (const Part& part : parts) work += row_work(part.rows, width) * part.weight.out();
  const i64 share = std::max<i64>(work / (pool_.size() * 4), kSmallestShare);
  std::vector<Piece> pieces;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const i64 columns = share / row_work(std::min(parts[p].rows, kGemmRows), width) / kGemmColumns * kGemmColumns;
    cut(pieces, p, parts[p].first - first, parts[p].rows, parts[p].weight.out(), std::max(columns, kGemmColumns));
  }
  const auto total = static_cast<i64>(pieces.size());
  parallel(total, work / total, [&](i64 begin, i64 end, int worker) {
    float* space = scratch(worker, kGemmScratch);
    for (i64 i = begin; i < end; ++i) {
      const Piece& piece = pieces[static_cast<std::size_t>(i)];
      auto* place = static_cast<std::byte*>(out.row(first + piece.row)) + piece.column * size_of(out.dtype);
      kernels_.gemm({packed + piece.row * step, step, piece.rows, width, rows_of(parts[piece.part].weight),
                     piece.column, piece.columns, place, out.step, element_of(out.dtype), space});
    }
  });
}

const float* CpuBackend::pack_rows(const Rows& in, i64 first, i64 count, const Format* quantise_for) {
  const i64 step = padded_step(in.width);
  float* packed = scratch(-1, count * step);
  const Element type = element_of(in.dtype);
  parallel(count, in.width / 8, [&](i64 begin, i64 end, int) {
    for (i64 r = begin; r < end; ++r) {
      float* row = packed + r * step;
      kernels_.widen(row, in.row(first + r), type, in.width);
      std::fill(row + in.width, row + step, 0.0f);
      if (quantise_for != nullptr) round_to_fp8(kernels_, row, in.width, quantise_for->power_of_two());
    }
  });
  return packed;
}

void CpuBackend::run(const op::Linear& op) {
  const Part all{op.w, 0, Rows(op.y).count};
  multiply(op.y, op.x, {&all, 1}, op.mode);
}

void CpuBackend::run(const op::GroupedLinear& op) {
  const auto* offset = op.offsets.as<std::int32_t>();
  std::vector<Part> parts;
  for (i64 e = 0; e + 1 < op.offsets.dim(0); ++e)
    if (offset[e + 1] > offset[e]) parts.push_back({op.w[e], offset[e], offset[e + 1] - offset[e]});
  multiply(op.y, op.x, parts, op.mode);
}

void CpuBackend::run(const op::HeadMatmul& op) {
  const Tensor &y = op.y, &x = op.x, &w = op.w;
  const i64 tokens = x.dim(0), heads = x.dim(1), k = x.dim(2), n = y.dim(2), step = padded_step(k);
  if (tokens == 0) return;
  const auto address = [](const Tensor& t, i64 a, i64 b) {
    return static_cast<std::byte*>(t.data()) + (a * t.stride(0) + b * t.stride(1)) * size_of(t.dtype());
  };
  const i64 work = row_work(tokens, k) * n * heads, columns_work = row_work(std::min(tokens, kGemmRows), k);
  const i64 columns = std::max(work / (pool_.size() * 4) / columns_work / kGemmColumns, i64{1}) * kGemmColumns;
  std::vector<Piece> pieces;
  for (i64 h = 0; h < heads; ++h) cut(pieces, static_cast<std::size_t>(h), 0, tokens, n, columns);
  const auto count = static_cast<i64>(pieces.size());
  parallel(count, work / count, [&](i64 begin, i64 end, int worker) {
    float* space = scratch(worker, kGemmScratch + kGemmRows * step + (op.transposed ? columns * step : 0));
    float *packed = space + kGemmScratch, *turned = packed + kGemmRows * step;
    for (i64 i = begin; i < end; ++i) {
      const Piece& piece = pieces[static_cast<std::size_t>(i)];
      const i64 row = piece.row, rows = piece.rows, column = piece.column, out = piece.columns;
      const auto h = static_cast<i64>(piece.part);
      for (i64 r = 0; r < rows; ++r) {
        kernels_.widen(packed + r * step, address(x, row + r, h), element_of(x.dtype()), k);
        std::fill(packed + r * step + k, packed + (r + 1) * step, 0.0f);
      }
      WeightRows weight{address(w, h, 0), w.stride(1) * size_of(w.dtype()), element_of(w.dtype()), nullptr, 0};
      if (op.transposed) {  // the piece's columns as rows
        visit_act(w, [&](auto* typed) {
          for (i64 c = 0; c < k; ++c)
            for (i64 j = 0; j < out; ++j)
              turned[j * step + c] = widen(typed[h * w.stride(0) + c * w.stride(1) + column + j]);
        });
        weight = {turned, step * static_cast<i64>(sizeof(float)), Element::f32, nullptr, 0};
      }
      kernels_.gemm({packed, step, rows, k, weight, op.transposed ? 0 : column, out,
                     address(y, row, h) + column * size_of(y.dtype()), y.stride(0) * size_of(y.dtype()),
                     element_of(y.dtype()), space});
    }
  });
}

void CpuBackend::run(const op::Dequantize& op) {
  if (op.rows.defined() && op.rows.as<std::int32_t>()[0] == op.rows.as<std::int32_t>()[1]) return;
  const Weight& w = op.w;
  const Rows out(op.y);
  if (!supports(*w.format)) {  // in bands, by the format's plain form
    const i64 unit = w.format->unit(0);
    return parallel((w.out() + unit - 1) / unit, unit * w.in() * 2, [&](i64 begin, i64 end, int worker) {
      float* values = scratch(worker, unit * w.in());
      for (i64 first = begin * unit; first < std::min(end * unit, w.out()); first += unit) {
        const Weight band = w.rows(first, std::min(unit, w.out() - first));
        band.dequantize(values);
        for (i64 o = 0; o < band.out(); ++o)
          kernels_.narrow(out.row(first + o), element_of(out.dtype), values + o * w.in(), w.in());
      }
    });
  }
  const WeightRows rows = rows_of(w);
  parallel(w.out(), w.in() / 4, [&](i64 begin, i64 end, int worker) {
    float* row = scratch(worker, w.in());
    for (i64 o = begin; o < end; ++o) {
      kernels_.decode_row(row, rows, o, w.in());
      kernels_.narrow(out.row(o), element_of(out.dtype), row, w.in());
    }
  });
}

}  // namespace fathom
