// Request and Event: what a caller asks of the engine and what it hears. Token ids only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/sampling.h"
#include "base/token_id.h"

namespace fathom {

// What a request may have: each drawn token is looked for in all of them.
inline constexpr i64 kMostStopIds = 256;

// The same request gives the same tokens as long as the logits are the same bits. On a CPU they are, whatever runs
// beside it; on a GPU the kernel of a product depends on how many tokens a pass has, so that in other company the last
// bits may differ, and with them a token whose rivals are as close as that.
struct Request {
  i64 id = 0;  // chosen by the caller; unique among unfinished requests
  std::vector<TokenId> prompt = {};
  SamplingParams sampling = {};
  i64 max_new_tokens = 200;
  std::vector<TokenId> stop_ids = {};  // end of sequence and the like: drawn, reported, then finished; kMostStopIds
  std::int32_t n_logprobs = -1;        // -1: none; 0: of the drawn token; N: of the N likeliest too, up to all
};

enum class FinishReason : std::uint8_t { none, stop, length, error };

struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;
};

struct Usage {
  i64 prompt_tokens = 0;
  i64 cached_tokens = 0;  // of the prompt, found in the cache instead of computed
  i64 completion_tokens = 0;
};

// One drawn token, or the end of a request, or both.
struct Event {
  i64 request = 0;
  TokenId token = -1;                           // -1: none drawn (errors, no room for an answer)
  float logprob = 0;                            // of `token`, when asked for
  std::vector<TokenLogprob> top_logprobs = {};  // likeliest first
  FinishReason finish = FinishReason::none;
  std::string error = {};  // set with FinishReason::error
  Usage usage = {};        // so far
};

}  // namespace fathom
