#include "checkpoint/json_text.h"

#include <set>
#include <vector>

#include <nlohmann/json.hpp>

namespace fathom {
namespace {

// Checked before parsing, so that no parser ever sees the depth of a hostile text.
void check_depth(std::string_view text, const std::string& source_name, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      CHECK(++depth <= max_depth, "{}: JSON nested deeper than {} levels at byte {}", source_name, max_depth, i);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

// The library's sentence without its tag and without the (possibly not printable) text around the place.
std::string reason(const std::exception& error) {
  std::string text = error.what();
  if (const auto tag = text.find("] "); tag != std::string::npos) text.erase(0, tag + 2);
  if (const auto last = text.find("; last read"); last != std::string::npos) text.erase(last);
  return shown(text);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& source_name, int max_depth) {
  check_depth(text, source_name, max_depth);
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      CHECK(keys.back().insert(key).second, "{}: key \"{}\" appears twice in one JSON object", source_name, shown(key));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not valid JSON: {}", source_name, reason(error));
  }
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 160;
  std::string clean;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      clean += fmt::format("\\x{:02x}", byte);
    else
      clean += c;
  }
  return text.size() > kLongest ? clean + "..." : clean;
}

std::string shown_json(const nlohmann::json& value) {
  return shown(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace fathom
