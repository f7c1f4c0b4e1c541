// What surrounds the model's text: tokenizer_config.json and the "post_processor" of tokenizer.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"

namespace fathom {

// The ids that a TemplateProcessing puts around a single text.
struct SpecialTemplate {
  std::vector<TokenId> before, after;
};

// Reads ByteLevel (which changes no id), TemplateProcessing and Sequence. Throws Error naming an unknown type.
SpecialTemplate read_post_processor(const nlohmann::json& description);

// The fields that matter; token texts are empty where the file names none.
struct TokenizerConfig {
  std::string bos_token, eos_token, pad_token, unk_token;
  std::optional<bool> add_bos_token, add_eos_token;
};

// From the text of tokenizer_config.json; the class name in it is not looked at.
TokenizerConfig read_tokenizer_config(std::string_view text);

}  // namespace fathom
