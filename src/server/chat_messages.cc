#include "server/chat_messages.h"

#include <algorithm>
#include <array>

namespace fathom {
namespace {

constexpr std::size_t kMaxMessages = 100000;
constexpr std::array<std::string_view, 6> kRoles{"system", "developer", "user", "assistant", "tool", "function"};

// The text of a content that is a text or a list of parts.
Json text_of(const Fields& fields, const char* name) {
  const Json* content = fields.find(name);
  if (content == nullptr) return nullptr;
  if (content->is_string()) return *content;
  if (!content->is_array()) fields.refuse(name, "a text or a list of parts", *content);
  std::string text;
  for (std::size_t n = 0; n < content->size(); ++n) {
    const Fields part((*content)[n], fmt::format("{}[{}].", fields.name_of(name), n));
    const std::string type = part.text("type", "text");
    if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal")
      part.refuse("type", "\"text\": this model reads nothing else", part.required("type"));
    const char* field = type == "refusal" ? "refusal" : "text";
    part.required(field);
    if (n > 0) text += '\n';
    text += part.text(field, "");
  }
  return text;
}

void check_tool_calls(const Fields& message) {
  const Json* calls = message.array("tool_calls");
  if (calls == nullptr) return;
  for (std::size_t n = 0; n < calls->size(); ++n) {
    const std::string path = fmt::format("{}[{}].", message.name_of("tool_calls"), n);
    const Fields call((*calls)[n], path);
    const Fields function(call.required("function"), path + "function.");
    function.required("name");
    function.text("name", "");
    function.text("arguments", "");
  }
}

Json read_message(const Json& value, const std::string& path) {
  const Fields fields(value, path);
  fields.required("role");
  const std::string role = fields.text("role", "");
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end())
    fields.refuse("role", "system, developer, user, assistant or tool", *fields.find("role"));
  check_tool_calls(fields);
  Json message = value;
  message["role"] = role == "developer" ? "system" : role == "function" ? "tool" : role;
  message["content"] = text_of(fields, "content");
  if (message["content"].is_null() && role != "assistant") fields.required("content");
  return message;
}

void check_tools(const Fields& fields) {
  const Json* tools = fields.array("tools");
  if (tools == nullptr) return;
  for (std::size_t n = 0; n < tools->size(); ++n) {
    const std::string path = fmt::format("tools[{}].", n);
    const Fields tool((*tools)[n], path);
    if (tool.text("type", "function") != "function") tool.refuse("type", "\"function\"", tool.required("type"));
    const Fields function(tool.required("function"), path + "function.");
    function.required("name");
    function.text("name", "");
    function.object("parameters");
  }
}

// Whether the model is shown the tools. Forced calls need a grammar, which is not built.
bool shows_tools(const Fields& fields) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  fields.refuse("tool_choice", "\"auto\" or \"none\": forced calls are not supported", *choice);
}

}  // namespace

Json chat_variables(const Fields& fields) {
  fields.required("messages");
  const Json& messages = *fields.array("messages");
  if (messages.empty()) fields.refuse("messages", "a list with at least one message", messages);
  if (messages.size() > kMaxMessages)
    throw ApiError(400, fmt::format("'messages' has {} entries; at most {} are taken", messages.size(), kMaxMessages),
                   "messages");
  check_tools(fields);
  Json variables{{"messages", Json::array()}, {"add_generation_prompt", fields.boolean("add_generation_prompt", true)}};
  for (std::size_t n = 0; n < messages.size(); ++n)
    variables["messages"].push_back(read_message(messages[n], fmt::format("messages[{}].", n)));
  if (const Json* tools = fields.array("tools"); tools != nullptr && !tools->empty() && shows_tools(fields))
    variables["tools"] = *tools;
  if (const Json* more = fields.object("chat_template_kwargs"))
    for (const auto& [name, value] : more->items()) variables[name] = value;
  return variables;
}

}  // namespace fathom
