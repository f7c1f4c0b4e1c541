#include "session/prompt.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace fathom {
namespace {

nlohmann::ordered_json template_variables(const std::vector<Message>& messages) {
  nlohmann::ordered_json variables{{"messages", nlohmann::ordered_json::array()}, {"add_generation_prompt", true}};
  for (const Message& message : messages)
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  return variables;
}

}  // namespace

std::vector<TokenId> PromptBuilder::build(const std::vector<Message>& messages) const {
  return with_bos(encode(template_.render_pieces(template_variables(messages))));
}

Prompt PromptBuilder::prepare(const nlohmann::ordered_json& variables) const {
  const std::vector<TextPiece> pieces = template_.render_pieces(variables);
  std::string text;
  for (const TextPiece& piece : pieces) text += piece.text;
  return {with_bos(encode(pieces)), detect_output_format(template_.source(), text)};
}

std::vector<TokenId> PromptBuilder::with_bos(std::vector<TokenId> ids) const {
  if (const auto bos = tokenizer_.bos_id()) {  // a template may write it or leave it to the tokenizer
    const auto text = std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return id != *bos; });
    ids.erase(ids.begin(), text);
    ids.insert(ids.begin(), *bos);
  }
  return ids;
}

OutputFormat PromptBuilder::output_format(const std::vector<Message>& messages) const {
  return detect_output_format(template_.source(), template_.render(template_variables(messages)));
}

std::string PromptBuilder::render(const nlohmann::ordered_json& variables) const { return template_.render(variables); }

// Where no message spells a special token, the whole prompt is encoded in one piece, as the tokenizer's own programs
// do. Otherwise special tokens are taken from the template's text alone, and all text between two of them is encoded
// together: cutting it elsewhere could change the tokens at the cuts.
std::vector<TokenId> PromptBuilder::encode(const std::vector<TextPiece>& pieces) const {
  std::string whole;
  std::vector<Part> parts{Part{}};
  std::vector<TokenId> wanted;
  for (const TextPiece& piece : pieces) {
    whole += piece.text;
    if (!piece.from_template) {
      parts.back().text += piece.text;
      continue;
    }
    const auto added = added_ids(piece.text);
    wanted.insert(wanted.end(), added.begin(), added.end());
    cut(piece.text, added, parts);
  }
  if (allow_special_ || added_ids(whole) == wanted) return tokenizer_.encode(whole);
  std::vector<TokenId> ids;
  for (const Part& part : parts) {
    const auto text = tokenizer_.encode(part.text, Tokenizer::AddedTokens::ignore);
    ids.insert(ids.end(), text.begin(), text.end());
    if (part.special >= 0) ids.push_back(part.special);
  }
  return ids;
}

std::vector<TokenId> PromptBuilder::added_ids(const std::string& text) const {
  std::vector<TokenId> ids;
  for (const Tokenizer::Explained& one : tokenizer_.explain(text))
    if (one.added) ids.insert(ids.end(), one.ids.begin(), one.ids.end());
  return ids;
}

// Appends the text to the last part, ending a part at each of the special tokens `added` that it holds in this order.
void PromptBuilder::cut(std::string_view text, const std::vector<TokenId>& added, std::vector<Part>& parts) const {
  for (const TokenId id : added) {
    const std::string spelled = tokenizer_.token_text(id);
    const std::size_t at = text.find(spelled);
    CHECK(at != std::string_view::npos, "the chat template's special token '{}' is not spelled in its text", spelled);
    parts.back().text += text.substr(0, at);
    parts.back().special = id;
    parts.emplace_back();
    text.remove_prefix(at + spelled.size());
  }
  parts.back().text += text;
}

}  // namespace fathom
