// What the requests of OpenAI's dialect have in common: the fields that say how an answer is drawn.
#pragma once

#include "server/fields.h"
#include "server/service.h"
#include "session/reply.h"

namespace fathom {

struct OpenAiOptions {
  AnswerOptions answer;
  i64 n = 1;
  bool stream = false, usage_chunk = false, usage_always = false;  // the last two: stream_options
  int n_logprobs = -1;                                             // as in AnswerOptions
};

// Throws ApiError naming the field. `max_tokens` is what is taken when the request says nothing; 0: until the context
// is full.
OpenAiOptions read_openai_options(const Fields& fields, const Service& service, i64 max_tokens);

// Refuses prompts that leave no room, or not the room that was asked for, and sets what was left open.
void fit_answer(AnswerOptions& options, i64 prompt_tokens, i64 max_seq_len);

// Entries of a choice's log-probabilities from the one numbered `from` on, as the chat dialect writes them.
Json openai_logprobs(const Reply& reply, std::size_t from);

// The usage of an answer, as OpenAI's dialect writes it.
Json openai_usage(const Usage& usage, i64 reasoning_tokens);

}  // namespace fathom
