#include "kernels/cuda/sm90/tile_map.h"

#include "base/check.h"

namespace fathom::cuda {

void* tile_map_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result);
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) return function;
  cudaGetLastError();  // the device is used without it
  return nullptr;
}

CUtensorMap map_of(const Device& device, const TileMap& tile) {
  CUtensorMap map;
  cuuint64_t dims[3], strides[2];
  cuuint32_t box[3], steps[3] = {1, 1, 1};
  for (int d = 0; d < tile.rank; ++d) {
    dims[d] = static_cast<cuuint64_t>(tile.dim[d]);
    box[d] = static_cast<cuuint32_t>(tile.box[d]);
    if (d > 0) strides[d - 1] = static_cast<cuuint64_t>(tile.stride[d - 1]);
  }
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(device.tile_map_encoder);
  const CUtensorMapDataType type = tile.type == Type::bf16  ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                   : tile.type == Type::f32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                                            : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  const CUtensorMapSwizzle swizzle = tile.swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : tile.swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                          : CU_TENSOR_MAP_SWIZZLE_NONE;
  const CUresult result = encode(&map, type, static_cast<cuuint32_t>(tile.rank), const_cast<void*>(tile.data), dims,
                                 strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK(result == CUDA_SUCCESS, "CUDA refused a map of tiles (error {}): dimensions {} x {}, a row has {} bytes",
        static_cast<int>(result), dims[0], dims[1], strides[0]);
  return map;
}

}  // namespace fathom::cuda
