// The latent cache: what attention remembers, in blocks of tokens, for every layer.
#pragma once

#include "model/args.h"
#include "ops/backend.h"

namespace fathom {

class LatentCache {
 public:
  // `layers` layers of `blocks` x `block_size` rows of kv_lora_rank + qk_rope_head_dim numbers (bf16 or f32).
  LatentCache(Backend& backend, const ModelArgs& args, i64 layers, i64 blocks, i64 block_size, DType dtype);

  // Bytes of one block in all of `layers` layers.
  static i64 block_bytes(const ModelArgs& args, i64 layers, i64 block_size, DType dtype) {
    return layers * block_size * (args.kv_lora_rank + args.qk_rope_head_dim) * size_of(dtype);
  }

  CacheLayer layer(i64 i) const { return {all_[i], kv_lora_rank_}; }
  i64 blocks() const { return all_.dim(1); }
  i64 block_size() const { return all_.dim(2); }
  i64 bytes() const { return all_.bytes(); }

 private:
  Storage storage_;
  Tensor all_;  // [layers, blocks, block_size, width]
  i64 kv_lora_rank_;
};

}  // namespace fathom
