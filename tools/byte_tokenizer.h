// A byte-level tokenizer that needs no download, for synthetic models: one token a byte and DeepSeek's special tokens.
#pragma once

#include <string>

#include "model/args.h"

namespace fathom {

// The smallest vocabulary that the tokenizer fits into.
i64 byte_tokenizer_size();

// tokenizer.json. BOS and EOS have the model's ids (0 and 1 when it states none); bytes follow in order on the ids that
// are left, then the role markers and tool tokens.
std::string byte_tokenizer_json(const ModelArgs& args);

// tokenizer_config.json with a chat template of system, user, assistant and tool messages.
std::string byte_tokenizer_config_json(const ModelArgs& args);

}  // namespace fathom
