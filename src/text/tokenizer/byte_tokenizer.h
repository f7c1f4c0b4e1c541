// A byte-level tokenizer that needs no download, for synthetic models: one token a byte and DeepSeek's special tokens.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"
#include "base/token_id.h"

namespace fathom {

inline constexpr std::string_view kByteTokenizerBos = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kByteTokenizerEos = "<｜end▁of▁sentence｜>";

// What the model states; -1: nothing.
struct ByteTokenizerIds {
  TokenId bos = -1, eos = -1;
};

// The smallest vocabulary that the tokenizer fits into.
i64 byte_tokenizer_size();

// tokenizer.json. BOS and EOS are 0 and 1 when the model states none; bytes follow in order on the ids that
// are left, then the role markers and tool tokens.
std::string byte_tokenizer_json(ByteTokenizerIds stated);

// A chat template of system, user, assistant and tool messages.
std::string_view byte_tokenizer_template();

// tokenizer_config.json for prompts of `max_seq_len` tokens, with that template.
std::string byte_tokenizer_config_json(i64 max_seq_len);

}  // namespace fathom
