// libFuzzer: any bytes as a chat template, rendered over a small conversation. Only Error may come out.
#include <cstdint>
#include <string>
#include <string_view>

#include "text/chat/template.h"

namespace {
constexpr std::string_view kVariables = R"({
  "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Grüße <b>\n 1,2"},
               {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]}],
  "n": 7, "f": 2.5, "s": "Hello, World", "l": [3, 1, 2], "d": {"b": 1, "a": "x"}, "add_generation_prompt": true})";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fathom::RenderOptions options;
  options.now = std::tm{};
  options.limits.max_steps = 200'000;
  options.limits.max_bytes = 16 << 20;
  try {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    const auto pieces = fathom::ChatTemplate::parse(source, "<s>", "</s>").render_pieces(kVariables, options);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (pieces[i].text.empty() || (i > 0 && pieces[i].from_template == pieces[i - 1].from_template)) __builtin_trap();
  } catch (const fathom::Error&) {
  }
  return 0;
}
