// fathom render: messages to the exact prompt of a model, by the model's own chat template.
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/check.h"
#include "text/chat/template.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/input.h"
#include "tools/output.h"

namespace fathom {

namespace {

struct RenderFlags {
  std::string model, file, name, date;
  bool jsonl = false, explain = false;
};

// "2026-01-02" or "2026-01-02 03:04:05" (a T may stand between).
std::tm parse_date(const std::string& text) {
  std::tm time{};
  char mark = ' ', rest = '\0';
  const int read = std::sscanf(text.c_str(), "%4d-%2d-%2d%c%2d:%2d:%2d%c", &time.tm_year, &time.tm_mon, &time.tm_mday,
                               &mark, &time.tm_hour, &time.tm_min, &time.tm_sec, &rest);
  const bool shaped = read == 3 || (read == 7 && (mark == ' ' || mark == 'T'));
  time.tm_year -= 1900, time.tm_mon -= 1, time.tm_isdst = -1;
  std::tm wish = time;
  if (!shaped || std::mktime(&time) == -1 || time.tm_mon != wish.tm_mon || time.tm_mday != wish.tm_mday ||
      time.tm_hour != wish.tm_hour || time.tm_min != wish.tm_min || time.tm_sec != wish.tm_sec)
    throw UsageError(fmt::format("--date takes YYYY-MM-DD or \"YYYY-MM-DD HH:MM:SS\", not '{}'", text));
  return time;
}

std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The prompt as it is, or as a JSON string; with --explain its pieces, one a line or all as an array.
std::string render_one(const ChatTemplate& chat, const std::string& input, const RenderFlags& flags,
                       const RenderOptions& options) {
  if (!flags.explain) {
    const std::string prompt = chat.render(std::string_view(input), options);
    return flags.jsonl ? dump(prompt) : prompt;
  }
  std::string lines;
  auto all = nlohmann::json::array();
  for (const TextPiece& piece : chat.render_pieces(std::string_view(input), options)) {
    const nlohmann::json row{{"text", piece.text}, {"from", piece.from_template ? "template" : "content"}};
    flags.jsonl ? all.push_back(row) : void(lines += dump(row) + "\n");
  }
  return flags.jsonl ? dump(all) : lines;
}

void run_render(const RenderFlags& flags) {
  if (flags.model.empty() && flags.file.empty()) throw UsageError("render needs --model DIR, --template FILE or both");
  const ChatTemplate chat = flags.file.empty() ? ChatTemplate::load(flags.model, flags.name)
                                               : ChatTemplate::load_file(flags.file, flags.model);
  RenderOptions options;
  if (!flags.date.empty()) options.now = parse_date(flags.date);
  if (!flags.jsonl) {
    const std::string input = read_input();
    CHECK(!input.empty(), "render reads one JSON object from the standard input, but that is empty");
    return write_output(render_one(chat, input, flags, options));
  }
  OutputBuffer out;
  while (const auto line = read_input_line()) {
    if (line->empty()) continue;
    std::string row;
    try {
      row = render_one(chat, *line, flags, options);
    } catch (const Error& error) {
      row = dump({{"error", error.what()}});
    }
    out.write(row + "\n");
  }
  out.finish();
}

}  // namespace

void add_render(CLI::App& app) {
  Command command(app, "render", "Messages (JSON on stdin) to the prompt, by the chat template");
  auto flags = std::make_shared<RenderFlags>();
  command.option("--model", flags->model, "Model directory: its template and special tokens");
  const Flag file =
      command.option("--template,--chat-template", flags->file, "Template file instead of the model's own");
  command.option("--template-name", flags->name, "Which of the model's named templates (default: default)")
      .excludes(file);
  command.option("--date", flags->date, "Time for strftime_now: YYYY-MM-DD or \"YYYY-MM-DD HH:MM:SS\"");
  command.flag("--jsonl", flags->jsonl,
               "One JSON object a line in; a JSON string, with --explain an array, or {\"error\": ...} out");
  command.flag("--explain", flags->explain, "Print the pieces of the prompt and where each came from");
  command.run([flags] { run_render(*flags); });
}

}  // namespace fathom
