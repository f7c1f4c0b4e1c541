// Products of many rows on Hopper: maps and plans for the kernels of gemm.cuh; whether a device has them.
#include <algorithm>

#include "kernels/cuda/sm90/gemm_kernels.cuh"

namespace fathom::cuda {
namespace {

constexpr i64 kGroups = 1024;  // at most: their tiles are counted in shared memory

__global__ void probe_kernel(int* found) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  *found = 1;
#else
  *found = 0;
#endif
}

// Whether the code that runs on this device was made for sm_90a, and not for something older or as portable code.
bool has_hopper_code() {
  int found = 0, *place = nullptr;
  if (cudaMalloc(&place, sizeof(int)) != cudaSuccess) return false;
  probe_kernel<<<1, 1>>>(place);
  const bool copied = cudaMemcpy(&found, place, sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaFree(place);
  cudaGetLastError();
  return copied && found == 1;
}

bool multiple_of_16(const void* data, i64 stride_bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride_bytes % 16 == 0;
}

// The width of tiles that ends soonest: whole waves of tiles over `units` pairs of blocks, each with a fixed cost.
int best_width(i64 rows, i64 outs, i64 units, int most) {
  int best = most;
  i64 best_cost = 0;
  for (int width = most; width >= 32; width -= 32) {
    const i64 pieces = (rows + width - 1) / width, size = width_of(static_cast<int>((rows + pieces - 1) / pieces)),
              tiles = (rows + size - 1) / size * outs, cost = (tiles + units - 1) / units * (size + 48);
    if (best_cost != 0 && cost >= best_cost) continue;
    best = width, best_cost = cost;
  }
  return best;
}

}  // namespace

Device find_device(int index) {
  int major = 0, minor = 0;
  Device device;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
  cudaDeviceGetAttribute(&device.multiprocessors, cudaDevAttrMultiProcessorCount, index);
  if (major == 9 && minor == 0 && has_hopper_code()) device.encode = tile_map_encoder();
  return device;
}

bool gemm_fits(const WideProduct& p) {
  const bool fp8 = p.w.type == Type::e4m3, codes = p.x_scale != nullptr;
  const i64 x_bytes = codes ? 1 : 2, w_bytes = fp8 ? 1 : 2;
  if (p.rows == 0 || p.w.out == 0 || p.w.in == 0 || p.w.count == 0 || p.w.count > kGroups) return false;
  if (p.w.type == Type::f32 || (codes && (!fp8 || p.w.in % 128 != 0))) return false;
  if (p.w_transposed && (fp8 || p.w.out != 128 || p.x_head != 0 || p.w.in % 64 != 0)) return false;
  return multiple_of_16(p.x, p.x_stride * x_bytes) && multiple_of_16(p.x, p.x_head * x_bytes) &&
         multiple_of_16(p.w.data, p.w.in * w_bytes);
}

void gemm_run(cudaStream_t s, const Device& device, const WideProduct& p) {
  const bool codes = p.x_scale != nullptr, fp8 = p.w.type == Type::e4m3;
  const Type x_type = codes ? Type::e4m3 : Type::bf16;
  const i64 x_bytes = codes ? 1 : 2, w_bytes = fp8 ? 1 : 2, heads = p.x_head != 0 ? p.w.count : 1;
  // Heads of 128 outputs with one input are one matrix.
  const bool flat = p.offsets == nullptr && p.x_head == 0 && (p.w.out == 128 || p.w.count == 1);
  GemmPlan plan{};
  plan.y = p.y;
  plan.y_type = p.y_type;
  plan.add = p.add;
  plan.whole = codes;
  plan.y_stride = p.y_stride;
  plan.y_head = flat ? 0 : p.y_head;
  plan.y_block = flat && p.w.count > 1 ? p.y_head : 128;
  plan.vector = p.y_stride % 8 == 0 && p.y_head % 8 == 0 && reinterpret_cast<std::uintptr_t>(p.y) % 16 == 0;
  plan.offsets = p.offsets;
  plan.w_scale = p.w.scale;
  plan.groups = flat ? 1 : static_cast<int>(p.w.count);
  plan.rows = static_cast<int>(p.rows);
  plan.out = static_cast<int>(flat ? p.w.out * p.w.count : p.w.out);
  plan.steps = static_cast<int>(fp8 ? (p.w.in + 127) / 128 : (p.w.in + 63) / 64);
  plan.scale_rows = static_cast<int>((p.w.out + 127) / 128);
  plan.scale_columns = static_cast<int>((p.w.in + 127) / 128);
  plan.w_rows = static_cast<int>(p.w_transposed ? p.w.in : p.w.out);
  plan.x_head = p.x_head != 0 ? 1 : 0;
  const bool alone = plan.out <= 128;  // no second tile of outputs for a pair
  plan.most = codes ? 128 : fp8 ? 192 : 256;
  if (!codes && p.offsets != nullptr)  // most experts' rows in one tile, which is no wider than that needs
    plan.most = std::min(plan.most, width_of(static_cast<int>(2 * p.rows / p.w.count + 16)));
  else if (!codes)
    plan.most = best_width(p.rows, (plan.out + 255) / 256 * plan.groups, device.multiprocessors / 2, plan.most);
  const int w_box = fp8 ? 128 : 64, x_box = codes ? 128 : 64;
  Maps maps{};
  if (p.w_transposed)
    maps.w = map_of(device, {p.w.data, Type::bf16, 2, {128, p.w.count * p.w.in}, {256}, {64, 64}, 128});
  else
    maps.w =
        map_of(device, {p.w.data, p.w.type, 2, {p.w.in, p.w.count * p.w.out}, {p.w.in * w_bytes}, {w_box, 128}, 128});
  maps.x = map_of(device, {p.x,
                           x_type,
                           3,
                           {p.w.in, heads, p.rows},
                           {heads > 1 ? p.x_head * x_bytes : p.x_stride * x_bytes, p.x_stride * x_bytes},
                           {x_box, 1, 32},
                           128});
  if (codes) {
    maps.scales = map_of(device, {p.x_scale, Type::f32, 2, {p.rows, plan.steps}, {p.x_scale_stride * 4}, {132, 1}, 0});
    return gemm_fp8(s, device, maps, plan);
  }
  if (fp8) return gemm_mixed(s, device, maps, plan);
  if (p.w_transposed) return gemm_transposed(s, device, maps, plan);
  alone ? gemm_bf16_single(s, device, maps, plan) : gemm_bf16(s, device, maps, plan);
}

}  // namespace fathom::cuda
