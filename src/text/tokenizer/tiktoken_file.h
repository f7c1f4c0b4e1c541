// tiktoken.model: a vocabulary of byte strings with ranks, brought into the form of tokenizer.json.
#pragma once

#include <filesystem>
#include <string_view>

#include "text/tokenizer/tokenizer_file.h"

namespace fathom {

// `model` has a line "BASE64 RANK" for each token; special tokens come from added_tokens_decoder of
// tokenizer_config.json, and the 256 ids behind the vocabulary that it does not name are reserved tokens, as the models
// that ship this file have them. The pattern is `pat_str` of their program `code`, without one that of Kimi-K2. Throws
// Error naming the line or the field that is wrong.
TokenizerFile read_tiktoken(std::string_view model, std::string_view tokenizer_config_json, std::string_view code);

// The program beside the vocabulary (tokenization_*.py); empty if there is none.
std::filesystem::path find_tokenizer_code(const std::filesystem::path& model_dir);

}  // namespace fathom
