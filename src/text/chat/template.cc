#include "text/chat/template.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/model_folder.h"
#include "text/jinja/eval.h"
#include "text/jinja/json.h"
#include "text/jinja/parser.h"
#include "text/unicode/utf8.h"

namespace fathom {

namespace fs = std::filesystem;
using jinja::Value;

struct ChatTemplate::Impl {
  std::string source;
  std::unique_ptr<const jinja::Template> main;
  std::unique_ptr<const jinja::Template> with_tools;        // null: main serves requests with tools too
  std::vector<std::pair<std::string, std::string>> tokens;  // bos_token and its kin
  std::vector<std::string> additional_tokens;
};

namespace {

constexpr const char* kTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

nlohmann::ordered_json read_json(const fs::path& path) {
  const std::string text = read_model_file(path);
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  CHECK(!json.is_discarded() && json.is_object(), "{} is not a JSON object", path.string());
  return json;
}

// A special token: a string, or an object with its content.
std::optional<std::string> token_text(const nlohmann::ordered_json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string())
    return token["content"].get<std::string>();
  return {};
}

bool has_token(const std::vector<std::pair<std::string, std::string>>& tokens, std::string_view name) {
  for (const auto& token : tokens)
    if (token.first == name) return true;
  return false;
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

const std::string& ChatTemplate::source() const { return impl_->source; }

namespace {

std::unique_ptr<const jinja::Template> parse_checked(std::string_view source) {
  CHECK(source.size() < (std::size_t{1} << 31), "the chat template is larger than 2 GiB");
  const std::size_t valid = valid_utf8_prefix(source);
  CHECK(valid == source.size(), "the chat template is not valid UTF-8 at byte {}", valid);
  return jinja::parse_template(source);
}

void read_tokens(const fs::path& dir, std::vector<std::pair<std::string, std::string>>& tokens,
                 std::vector<std::string>& additional) {
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (!fs::exists(dir / file)) continue;
    const auto config = read_json(dir / file);
    const auto add = [&](const std::string& name, const nlohmann::ordered_json& value) {
      const auto text = token_text(value);
      if (text && !has_token(tokens, name)) tokens.emplace_back(name, *text);
    };
    for (const char* name : kTokenNames)
      if (config.contains(name)) add(name, config[name]);
    if (config.contains("extra_special_tokens") && config["extra_special_tokens"].is_object())
      for (const auto& [name, value] : config["extra_special_tokens"].items()) add(name, value);
    if (additional.empty() && config.contains("additional_special_tokens") &&
        config["additional_special_tokens"].is_array())
      for (const auto& value : config["additional_special_tokens"])
        if (const auto text = token_text(value)) additional.push_back(*text);
  }
}

// The templates of a model directory by name, in no special order.
std::vector<std::pair<std::string, std::string>> find_templates(const fs::path& dir) {
  std::vector<std::pair<std::string, std::string>> found;
  if (fs::exists(dir / "chat_template.jinja")) {
    found.emplace_back("default", read_model_file(dir / "chat_template.jinja"));
    if (fs::is_directory(dir / "additional_chat_templates"))
      for (const auto& entry : fs::directory_iterator(dir / "additional_chat_templates"))
        if (entry.path().extension() == ".jinja")
          found.emplace_back(entry.path().stem(), read_model_file(entry.path()));
    return found;
  }
  for (const char* file : {"tokenizer_config.json", "chat_template.json"}) {
    if (!found.empty() || !fs::exists(dir / file)) continue;
    const auto config = read_json(dir / file);
    if (!config.contains("chat_template") || config["chat_template"].is_null()) continue;
    const auto& given = config["chat_template"];
    if (given.is_string()) found.emplace_back("default", given.get<std::string>());
    CHECK(given.is_string() || given.is_array(), "chat_template of {} is neither a string nor a list",
          (dir / file).string());
    if (!given.is_array()) continue;
    for (const auto& item : given) {
      CHECK(item.is_object() && item.contains("name") && item.contains("template") && item["name"].is_string() &&
                item["template"].is_string(),
            "chat_template of {} holds an item without name and template", (dir / file).string());
      found.emplace_back(item["name"].get<std::string>(), item["template"].get<std::string>());
    }
  }
  return found;
}

const std::string* by_name(const std::vector<std::pair<std::string, std::string>>& all, std::string_view name) {
  for (const auto& item : all)
    if (item.first == name) return &item.second;
  return nullptr;
}

}  // namespace

bool ChatTemplate::exists(const fs::path& model_dir) { return !find_templates(model_dir).empty(); }

ChatTemplate ChatTemplate::load(const fs::path& path_of_model, const std::string& name) {
  const fs::path model_dir = model_directory(path_of_model);
  const auto found = find_templates(model_dir);
  CHECK(!found.empty(), "the model {} has no chat template; pass --chat-template FILE", model_dir.string());
  const std::string* main = by_name(found, name.empty() ? "default" : name);
  if (main == nullptr) {
    std::string names;
    for (const auto& item : found) names += (names.empty() ? "" : ", ") + item.first;
    fail("the model {} has no chat template named '{}'; it has: {}", model_dir.string(),
         name.empty() ? "default" : name, names);
  }
  auto impl = std::make_unique<Impl>();
  impl->source = *main;
  impl->main = parse_checked(*main);
  if (const std::string* tools = name.empty() ? by_name(found, "tool_use") : nullptr)
    impl->with_tools = parse_checked(*tools);
  read_tokens(model_dir, impl->tokens, impl->additional_tokens);
  return ChatTemplate(std::move(impl));
}

ChatTemplate ChatTemplate::load_file(const fs::path& file, const fs::path& model_dir) {
  auto impl = std::make_unique<Impl>();
  impl->source = without_byte_order_mark(read_model_file(file));
  impl->main = parse_checked(impl->source);
  if (!model_dir.empty()) read_tokens(model_directory(model_dir), impl->tokens, impl->additional_tokens);
  return ChatTemplate(std::move(impl));
}

ChatTemplate ChatTemplate::parse(std::string_view source, std::string bos_token, std::string eos_token) {
  auto impl = std::make_unique<Impl>();
  impl->source = source;
  impl->main = parse_checked(source);
  if (!bos_token.empty()) impl->tokens.emplace_back("bos_token", std::move(bos_token));
  if (!eos_token.empty()) impl->tokens.emplace_back("eos_token", std::move(eos_token));
  return ChatTemplate(std::move(impl));
}

namespace {

std::vector<TextPiece> to_pieces(const jinja::Str& text) {
  std::vector<TextPiece> pieces;
  const auto add = [&](std::size_t begin, std::size_t end, bool from_template) {
    if (begin < end) pieces.push_back({std::string(text.view().substr(begin, end - begin)), from_template});
  };
  std::size_t at = 0;
  for (std::size_t i = 0; i < text.content_count; ++i) {
    add(at, text.content[i].begin, true);
    add(text.content[i].begin, text.content[i].end, false);
    at = text.content[i].end;
  }
  add(at, text.size, true);
  return pieces;
}

Value read_variables(jinja::Runtime& rt, std::string_view json) { return jinja::parse_json(rt, json); }
template <typename Json>
Value read_variables(jinja::Runtime& rt, const Json& json) {
  return jinja::from_json(rt, json);
}

std::string join(const std::vector<TextPiece>& pieces) {
  std::string out;
  for (const TextPiece& piece : pieces) out += piece.text;
  return out;
}

}  // namespace

template <typename Variables>
std::vector<TextPiece> ChatTemplate::render_with(const Variables& variables, const RenderOptions& options) const {
  jinja::Runtime rt(options.limits, impl_->main->source);
  if (options.now) rt.now = &*options.now;
  jinja::Dict& dict = *rt.make<jinja::Dict>();
  const auto set = [&](std::string_view name, const Value& value) {
    dict.set(rt, jinja::borrow_str(rt, name, false), value);
  };
  set("tools", Value::none());
  set("documents", Value::none());
  set("add_generation_prompt", Value::boolean(false));
  for (const auto& [name, text] : impl_->tokens) set(name, jinja::borrow_str(rt, text, false));
  if (!impl_->additional_tokens.empty()) {
    jinja::List* list = nullptr;
    set("additional_special_tokens", jinja::make_list(rt, &list));
    for (const std::string& text : impl_->additional_tokens) list->push(rt, jinja::borrow_str(rt, text, false));
  }
  const Value given = read_variables(rt, variables);
  CHECK(given.is(jinja::Kind::kDict), "the variables of a chat template must be a JSON object, not a {}",
        jinja::type_name(given));
  for (const auto& entry : *given.dict) dict.set(rt, entry.key, entry.value);
  const bool tools = impl_->with_tools != nullptr && !dict.find(rt, "tools")->is(jinja::Kind::kNone);
  const jinja::Template& chosen = tools ? *impl_->with_tools : *impl_->main;
  rt.set_source(chosen.source);
  return to_pieces(*jinja::Evaluator(rt, chosen, dict).run().str);
}

std::vector<TextPiece> ChatTemplate::render_pieces(const nlohmann::json& variables,
                                                   const RenderOptions& options) const {
  return render_with(variables, options);
}

std::vector<TextPiece> ChatTemplate::render_pieces(const nlohmann::ordered_json& variables,
                                                   const RenderOptions& options) const {
  return render_with(variables, options);
}

std::vector<TextPiece> ChatTemplate::render_pieces(std::string_view json_text, const RenderOptions& options) const {
  return render_with(json_text, options);
}

std::string ChatTemplate::render(const nlohmann::json& variables, const RenderOptions& options) const {
  return join(render_with(variables, options));
}

std::string ChatTemplate::render(const nlohmann::ordered_json& variables, const RenderOptions& options) const {
  return join(render_with(variables, options));
}

std::string ChatTemplate::render(std::string_view json_text, const RenderOptions& options) const {
  return join(render_with(json_text, options));
}

}  // namespace fathom
