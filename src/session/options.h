// What a caller chooses about a model's run and about an answer.
#pragma once

#include <string>
#include <vector>

#include "engine/request.h"
#include "ops/context.h"

namespace fathom {

struct SessionOptions {
  ComputeOptions compute = {};
  i64 max_seq_len = 0;     // 0: what the configuration says
  i64 max_batch_size = 0;  // sequences that run at once; 0: what the configuration says
  i64 cache_tokens = 0;    // 0: for all sequences at full length, or what the device holds
  i64 chunk = 0;           // prompt tokens of a pass; 0: what suits the device
  bool record = true;      // on a GPU: replay recorded steps instead of launching each operation
  bool map = false;        // on the CPU: use weights where their files are mapped
};

struct AnswerOptions {
  SamplingParams sampling = {};
  i64 max_new_tokens = 200;
  std::vector<std::string> stop = {};  // texts that end the answer
  std::vector<TokenId> stop_ids = {};  // tokens that end it, besides the model's own
  bool ignore_eos = false;             // the model's own end tokens do not end it
  int n_logprobs = -1;                 // -1: none; 0: of the drawn token; N: of the N likeliest too
};

}  // namespace fathom
