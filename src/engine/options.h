// What a runner is made for.
#pragma once

#include "ops/context.h"

namespace fathom {

struct RunnerOptions {
  i64 max_tokens = 512;    // of a pass
  i64 max_sequences = 8;   // of a pass
  i64 max_seq_len = 0;     // tokens of a sequence; 0: what the model arguments say
  i64 blocks = 0;          // of the cache; 0: for max_sequences of full length, or as many as the device's memory holds
  i64 block_size = 16;     // tokens
  i64 max_steps = 16;      // of a plan of decode passes
  bool map = false;        // on the CPU, weights stay where their files are mapped
  bool record = true;      // decode passes are recorded and replayed where the device can
  ComputeOptions compute;  // fixed for the runner's life

  i64 blocks_of(i64 tokens) const { return (tokens + block_size - 1) / block_size; }
};

}  // namespace fathom
