#include "text/tokenizer/split_behavior.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/check.h"
#include "text/tokenizer/json_fields.h"

namespace fathom {
namespace {

void emit(const Piece& piece, Span span, std::vector<Piece>& out) {
  if (span.end > span.begin)
    out.push_back({piece.text.substr(span.begin, span.end - span.begin), piece.first && span.begin == 0});
}

// A match joins what stands before it, unless that ends in a match itself.
void merge_with_previous(const Piece& piece, const std::vector<Cut>& cuts, std::vector<Piece>& out) {
  bool previous = false, any = false;
  Span open{0, 0};
  for (const Cut& cut : cuts) {
    if (cut.match && !previous && any) {
      open.end = cut.span.end;
    } else {
      emit(piece, open, out);
      open = cut.span;
    }
    any = true;
    previous = cut.match;
  }
  emit(piece, open, out);
}

// The mirror image: from the back, a match joins what follows it.
void merge_with_next(const Piece& piece, const std::vector<Cut>& cuts, std::vector<Piece>& out) {
  std::vector<Span> spans;
  bool previous = false;
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    if (cut->match && !previous && !spans.empty())
      spans.back().begin = cut->span.begin;
    else
      spans.push_back(cut->span);
    previous = cut->match;
  }
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) emit(piece, *span, out);
}

void join_equals(const Piece& piece, const std::vector<Cut>& cuts, std::vector<Piece>& out) {
  for (std::size_t i = 0; i < cuts.size();) {
    std::size_t end = i + 1;
    while (end < cuts.size() && cuts[end].match == cuts[i].match) ++end;
    emit(piece, {cuts[i].span.begin, cuts[end - 1].span.end}, out);
    i = end;
  }
}

}  // namespace

SplitBehavior read_split_behavior(std::string_view name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  fail("tokenizer.json: unknown split behavior \"{}\"", name);
}

PrependScheme read_prepend_scheme(const nlohmann::json& object, const char* role) {
  PrependScheme scheme = PrependScheme::kAlways;
  if (object.contains("prepend_scheme")) {
    const std::string name = json_string(object, role, "prepend_scheme");
    if (name == "first")
      scheme = PrependScheme::kFirst;
    else if (name == "never")
      scheme = PrependScheme::kNever;
    else
      CHECK(name == "always", "tokenizer.json: unknown prepend_scheme \"{}\"", name);
  }
  if (json_bool(object, role, "add_prefix_space", true)) return scheme;
  CHECK(!object.contains("prepend_scheme") || scheme == PrependScheme::kNever,
        "tokenizer.json: add_prefix_space of a {} contradicts its prepend_scheme", role);
  return PrependScheme::kNever;
}

void apply_behavior(const Piece& piece, const std::vector<Cut>& cuts, SplitBehavior behavior, std::vector<Piece>& out) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Cut& cut : cuts)
        if (!cut.match) emit(piece, cut.span, out);
      break;
    case SplitBehavior::kIsolated:
      for (const Cut& cut : cuts) emit(piece, cut.span, out);
      break;
    case SplitBehavior::kContiguous:
      join_equals(piece, cuts, out);
      break;
    case SplitBehavior::kMergedWithPrevious:
      merge_with_previous(piece, cuts, out);
      break;
    case SplitBehavior::kMergedWithNext:
      merge_with_next(piece, cuts, out);
      break;
  }
}

}  // namespace fathom
