// What becomes of the matches when a text is split: the behaviours of tokenizer.json, and Metaspace's prepend schemes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "text/tokenizer/pieces.h"
#include "text/tokenizer/regex.h"

namespace fathom {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class PrependScheme { kAlways, kNever, kFirst };

// A stretch of a piece and whether the pattern matched it; the cuts of a piece cover it.
struct Cut {
  Span span;
  bool match;
};

SplitBehavior read_split_behavior(std::string_view name);
// "prepend_scheme" with its older form "add_prefix_space".
PrependScheme read_prepend_scheme(const nlohmann::json& object, const char* role);

// Appends the parts of `piece`, without empty ones.
void apply_behavior(const Piece& piece, const std::vector<Cut>& cuts, SplitBehavior behavior, std::vector<Piece>& out);

}  // namespace fathom
