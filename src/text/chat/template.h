// The chat template of a model: messages to the prompt that the model was trained on, each character with its origin.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace fathom {

// A run of the prompt. Text that is not from the template came from messages, tools or other variables and must not
// become a control token.
struct TextPiece {
  std::string text;
  bool from_template;

  bool operator==(const TextPiece&) const = default;
};

// What a rendering may depend on besides its variables.
struct RenderOptions {
  std::optional<std::tm> now;  // for strftime_now(); the machine's local time otherwise
  jinja::Limits limits;
};

// A parsed chat template with the special tokens of its model. Immutable; may be used by several threads at once.
class ChatTemplate {
 public:
  // The template of a model directory: chat_template.jinja, else chat_template of tokenizer_config.json (a string or a
  // list of named ones; of these `name`, else "default"; requests with tools use "tool_use" where there is one).
  static ChatTemplate load(const std::filesystem::path& model_dir, const std::string& name = {});
  // Whether load() would find a template there.
  static bool exists(const std::filesystem::path& model_dir);
  // A template from a file, with the special tokens of the model directory unless that is empty.
  static ChatTemplate load_file(const std::filesystem::path& file, const std::filesystem::path& model_dir = {});
  // A template from its text. An empty token is not defined in the template.
  static ChatTemplate parse(std::string_view source, std::string bos_token, std::string eos_token);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Renders with variables such as {"messages": [...], "tools": [...], "add_generation_prompt": true}. What
  // transformers always defines is defined: tools and documents (null), add_generation_prompt (false) and the special
  // tokens of the model. Throws jinja::TemplateError with line and column. Neighbouring pieces differ in origin.
  std::vector<TextPiece> render_pieces(const nlohmann::json& variables, const RenderOptions& options = {}) const;
  std::vector<TextPiece> render_pieces(const nlohmann::ordered_json& variables,
                                       const RenderOptions& options = {}) const;
  // The same from JSON text, which keeps the order of keys.
  std::vector<TextPiece> render_pieces(std::string_view json_text, const RenderOptions& options = {}) const;

  // The pieces joined.
  std::string render(const nlohmann::json& variables, const RenderOptions& options = {}) const;
  std::string render(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;
  std::string render(std::string_view json_text, const RenderOptions& options = {}) const;

  // The text of the template.
  const std::string& source() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  template <typename Variables>
  std::vector<TextPiece> render_with(const Variables& variables, const RenderOptions& options) const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
