// Limits: how much a pass, a sequence and the cache may hold. One value, handed on whole to the runner, its buffers and
// the scheduler.
#pragma once

#include "base/check.h"

namespace fathom {

struct Limits {
  i64 max_tokens = 512;   // of a pass
  i64 max_sequences = 8;  // of a pass
  i64 max_rows = 0;       // of a pass: tokens whose logits are wanted; 0: one a sequence
  i64 max_seq_len = 0;    // tokens of a sequence, prompt and answer together; 0: what the model arguments say
  i64 max_steps = 8;      // decode passes of one plan
  i64 blocks = 0;         // of the cache; 0: for max_sequences of full length, or as many as the device's memory holds
  i64 block_size = 16;    // tokens: small blocks share more of a conversation's beginning

  i64 blocks_of(i64 tokens) const { return (tokens + block_size - 1) / block_size; }
  // Of the cache, where memory sets no bound.
  i64 wanted_blocks() const { return blocks > 0 ? blocks : max_sequences * blocks_of(max_seq_len); }
};

}  // namespace fathom
