// The end of a product on Hopper: sums of a warpgroup to rows of y, through shared memory so that writes are whole.
#pragma once

#include "kernels/cuda/sm90/gemm_scheduler.cuh"
#include "kernels/cuda/sm90/instructions.cuh"

namespace fathom::cuda {

// Up to four neighbouring outputs of one token.
__device__ inline void save_four(float* y, float4 v, const GemmPlan& p, int outs) {
  if (p.vector && outs >= 4) {
    auto* to = reinterpret_cast<float4*>(y);
    if (p.add) {
      const float4 old = *to;
      v.x += old.x, v.y += old.y, v.z += old.z, v.w += old.w;
    }
    *to = v;
    return;
  }
  const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < outs) y[i] = p.add ? y[i] + values[i] : values[i];
}

// Up to eight of bf16.
__device__ inline void save_eight(std::uint16_t* y, const std::uint32_t (&v)[4], const GemmPlan& p, int outs) {
  if (p.vector && outs >= 8)
    *reinterpret_cast<uint4*>(y) = {v[0], v[1], v[2], v[3]};
  else
    for (int i = 0; i < 8 && i < outs; ++i) y[i] = static_cast<std::uint16_t>(v[i / 2] >> (i % 2 * 16));
}

// Sums of 64 outputs x kWidth tokens of a warpgroup, times `scale`, to y.
template <int kWidth>
__device__ void save(const float (&d)[kWidth / 2], const GemmPlan& p, const GemmTile& tile, float scale,
                     std::uint32_t buffer) {
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, out0 = threadIdx.x / 128 * 64,
            outs = p.out - tile.out;
  const i64 base = tile.begin * p.y_stride + tile.group * p.y_head + tile.out / 128 * p.y_block;
  if (p.y_type == Type::f32) {
    auto* y = static_cast<float*>(p.y) + base + out0;
#pragma unroll
    for (int chunk = 0; chunk < kWidth / 16; ++chunk) {
      if (chunk * 16 >= tile.width) break;
      group_sync(1 + threadIdx.x / 128, 128);  // the last chunk has been read
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int token = i / 4 * 8 + lane % 4 * 2 + i % 2, out = warp * 16 + i / 2 % 2 * 8 + lane / 4;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(buffer + token * 256 + (out ^ lane % 4 * 8) * 4),
                     "f"(d[chunk * 8 + i] * scale)
                     : "memory");
      }
      group_sync(1 + threadIdx.x / 128, 128);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int token = half * 8 + thread / 16, out = thread % 16 * 4, row = chunk * 16 + token;
        float4 v;
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                     : "r"(buffer + token * 256 + (out ^ token / 2 % 4 * 8) * 4)
                     : "memory");
        if (row < tile.rows) save_four(y + row * p.y_stride + out, v, p, outs - out0 - out);
      }
    }
    return;
  }
  auto* y = static_cast<std::uint16_t*>(p.y) + base;
#pragma unroll
  for (int chunk = 0; chunk < kWidth / 32; ++chunk) {
    if (chunk * 32 >= tile.width) break;
    group_sync(1 + threadIdx.x / 128, 128);  // the last chunk has been read
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      std::uint32_t v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // block i: tokens 8 (i / 2), outputs 8 (i % 2)
        const int at = (chunk * 4 + pair * 2 + i / 2) * 4 + i % 2 * 2;
        v[i] = pack_bf16(d[at] * scale, d[at + 1] * scale);
      }
      const int token = pair * 16 + lane / 16 * 8 + lane % 8, piece = warp * 2 + lane / 8 % 2;
      store_transposed(buffer + token * 128 + ((piece ^ (token & 7)) * 16), v);
    }
    group_sync(1 + threadIdx.x / 128, 128);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = half * 16 + thread / 8, piece = thread % 8, row = chunk * 32 + token, out = out0 + piece * 8;
      std::uint32_t v[4];
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "r"(buffer + token * 128 + ((piece ^ (token & 7)) * 16))
                   : "memory");
      if (row < tile.rows) save_eight(y + row * p.y_stride + out, v, p, outs - out);
    }
  }
}

// As save, of sums that have a row a token: 64 tokens of a warpgroup x 128 outputs.
__device__ inline void save_rows(const float (&d)[64], const GemmPlan& p, const GemmTile& tile, std::uint32_t buffer) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, outs = p.out - tile.out;
  const i64 base = tile.begin * p.y_stride + tile.out / 128 * p.y_block;
  if (p.y_type == Type::f32) {
    auto* y = static_cast<float*>(p.y) + base;
#pragma unroll
    for (int i = 0; i < 64; i += 2) {
      const int token = warp * 16 + i / 2 % 2 * 8 + lane / 4, out = i / 4 * 8 + lane % 4 * 2;
      if (token >= tile.rows || out >= outs) continue;
      float* to = y + token * p.y_stride + out;
      if (p.vector && out + 1 < outs) {
        const float2 old = p.add ? *reinterpret_cast<const float2*>(to) : float2{};
        *reinterpret_cast<float2*>(to) = {old.x + d[i], old.y + d[i + 1]};
      } else {
        to[0] = p.add ? to[0] + d[i] : d[i];
        if (out + 1 < outs) to[1] = p.add ? to[1] + d[i + 1] : d[i + 1];
      }
    }
    return;
  }
  auto* y = static_cast<std::uint16_t*>(p.y) + base;
  buffer += warp % 4 * 1024;  // 16 tokens x 32 outputs of this warp alone
#pragma unroll
  for (int chunk = 0; chunk < 4; ++chunk) {
    __syncwarp();
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      std::uint32_t v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // block i: outputs 8 (i / 2), tokens 8 (i % 2)
        const int at = (chunk * 4 + pair * 2 + i / 2) * 4 + i % 2 * 2;
        v[i] = pack_bf16(d[at], d[at + 1]);
      }
      const int token = lane / 8 % 2 * 8 + lane % 8, piece = pair * 2 + lane / 16;
      store_blocks(buffer + token * 64 + ((piece ^ (token / 2 % 4)) * 16), v);
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = half * 8 + lane / 4, piece = lane % 4, row = warp * 16 + token, out = chunk * 32 + piece * 8;
      std::uint32_t v[4];
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "r"(buffer + token * 64 + ((piece ^ (token / 2 % 4)) * 16))
                   : "memory");
      if (row < tile.rows) save_eight(y + row * p.y_stride + out, v, p, outs - out);
    }
  }
}

}  // namespace fathom::cuda
