#include "tools/line_reader.h"

#include <signal.h>

#include <string_view>

#include "text/unicode/utf8.h"
#include "tools/input.h"
#include "tools/output.h"

namespace fathom {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

volatile sig_atomic_t interrupts = 0;

extern "C" void on_interrupt(int) { interrupts = 1; }

void set_handler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;  // without SA_RESTART: a read in progress ends with EINTR
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

InterruptFlag::InterruptFlag() {
  interrupts = 0;
  set_handler(on_interrupt);
}

InterruptFlag::~InterruptFlag() { set_handler(SIG_DFL); }

bool InterruptFlag::pending() { return interrupts != 0; }

bool InterruptFlag::take() {
  const bool was = interrupts != 0;
  interrupts = 0;
  return was;
}

LineReader::LineReader(const std::string& prompt, bool edit)
    : prompt_(prompt), editor_(edit ? std::make_unique<LineEditor>() : nullptr) {}

LineReader::Result LineReader::next() { return editor_ ? typed() : piped(); }

LineReader::Result LineReader::piped() {
  write_output(prompt_);
  const auto line = read_input_line();
  if (!line) return {};
  std::string_view text = *line;
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (begun_) return {Kind::line, std::string(text)};
  begun_ = true;
  return {Kind::line, std::string(without_byte_order_mark(text))};
}

LineReader::Result LineReader::typed() {
  InterruptFlag::take();
  std::optional<std::string> line = editor_->read(prompt_);
  const bool quoted = line && line->starts_with(kQuotes);
  std::string text = line ? line->substr(quoted ? kQuotes.size() : 0) : "";
  while (quoted && line && !text.ends_with(kQuotes)) {
    line = editor_->read("... ");
    if (line) text += (text.empty() ? "" : "\n") + *line;
  }
  if (InterruptFlag::take()) {
    write_output("^C\n");
    return {Kind::interrupted, {}};
  }
  if (!line && !quoted) return {};
  if (quoted && text.ends_with(kQuotes)) text.resize(text.size() - kQuotes.size());
  if (quoted && text.ends_with('\n')) text.pop_back();
  return {Kind::line, text};
}

}  // namespace fathom
