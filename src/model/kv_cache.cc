#include "model/kv_cache.h"

namespace fathom {

LatentCache::LatentCache(Backend& backend, const ModelArgs& args, i64 layers, i64 blocks, i64 block_size, DType dtype)
    : kv_lora_rank_(args.kv_lora_rank) {
  const Shape shape{layers, blocks, block_size, args.kv_lora_rank + args.qk_rope_head_dim};
  storage_ = backend.allocate(static_cast<std::size_t>(shape.numel() * size_of(dtype)));
  all_ = Tensor(storage_.data(), dtype, shape, backend.device());
}

}  // namespace fathom
