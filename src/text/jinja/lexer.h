// Template text to tokens, with Jinja's whitespace control under trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace fathom::jinja {

enum class TokenKind : std::uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::uint32_t pos = 0;  // byte offset in the source
  std::string text;       // data, name, operator or the characters of a string
  Int integer = 0;
  double real = 0.0;
};

// Line ends become \n and one at the very end is dropped.
std::string normalize_source(std::string_view source);
// The tokens of a normalised source, the last one kEnd. Throws TemplateError.
std::vector<Token> tokenize(std::string_view source);

}  // namespace fathom::jinja
