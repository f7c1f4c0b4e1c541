// libFuzzer: the first byte chooses the format, the second how the text is cut; whole and cut must give the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/chat/output_parser.h"

namespace {

void require(bool good) {
  if (!good) __builtin_trap();
}

void append(fathom::ParsedOutput& out, const std::vector<fathom::OutputDelta>& deltas) {
  for (const auto& delta : deltas) out.append(delta);
}

fathom::ParsedOutput in_pieces(const fathom::OutputFormat& format, std::string_view text, std::size_t seed) {
  fathom::OutputParser parser(format);
  fathom::ParsedOutput out;
  while (!text.empty()) {
    seed = seed * 1103515245 + 12345;
    const std::size_t size = 1 + (seed >> 16) % 11;
    append(out, parser.push(text.substr(0, size)));
    text.remove_prefix(std::min(size, text.size()));
  }
  append(out, parser.finish());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  fathom::OutputFormat format;
  format.reasoning = (data[0] & 1) != 0;
  format.opened = (data[0] & 2) != 0;
  format.tools = static_cast<fathom::ToolSyntax>((data[0] >> 2) % 5);
  const fathom::ParsedOutput whole = fathom::parse_output(format, text);
  require(in_pieces(format, text, data[1]) == whole);
  for (const auto& call : whole.tool_calls) {
    require(!call.name.empty());
    require(nlohmann::json::parse(call.arguments).is_object());
  }
  if (format.tools == fathom::ToolSyntax::none && !format.reasoning && !format.opened) require(whole.content == text);
  fathom::detect_output_format(std::string(text), std::string(text));
  return 0;
}
