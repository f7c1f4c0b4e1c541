// Messages to token ids: the model's chat template, then its tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/token_id.h"
#include "text/chat/output_parser.h"
#include "text/chat/template.h"
#include "text/tokenizer/tokenizer.h"

namespace fathom {

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// A prompt, and how the template has the answer to it mark reasoning and tool calls.
struct Prompt {
  std::vector<TokenId> ids;
  OutputFormat format;
};

class PromptBuilder {
 public:
  // The tokenizer outlives the builder. Without `allow_special`, text of messages never becomes a special token,
  // whatever it spells.
  PromptBuilder(const Tokenizer& tokenizer, ChatTemplate chat_template, bool allow_special)
      : tokenizer_(tokenizer), template_(std::move(chat_template)), allow_special_(allow_special) {}

  // The prompt that asks for the next answer; begins with exactly one BOS where the model has one.
  std::vector<TokenId> build(const std::vector<Message>& messages) const;
  // The same from the template's variables, such as {"messages": [...], "tools": [...], "add_generation_prompt": true}.
  // Throws jinja::TemplateError where the template does.
  Prompt prepare(const nlohmann::ordered_json& variables) const;
  OutputFormat output_format(const std::vector<Message>& messages) const;
  // The text of the prompt, and of the template.
  std::string render(const nlohmann::ordered_json& variables) const;
  const std::string& template_source() const { return template_.source(); }

 private:
  // Text, then a special token if there is one.
  struct Part {
    std::string text;
    TokenId special = -1;
  };
  std::vector<TokenId> encode(const std::vector<TextPiece>& pieces) const;
  std::vector<TokenId> with_bos(std::vector<TokenId> ids) const;
  std::vector<TokenId> added_ids(const std::string& text) const;
  void cut(std::string_view text, const std::vector<TokenId>& added, std::vector<Part>& parts) const;

  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  bool allow_special_;
};

}  // namespace fathom
