#include "tools/line_reader.h"

#include <errno.h>
#include <fmt/format.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cwchar>
#include <iostream>

namespace fathom {
namespace {

volatile sig_atomic_t interrupts = 0;

extern "C" void on_interrupt(int) { interrupts = 1; }

void set_handler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;  // without SA_RESTART: a read in progress ends with EINTR
  sigaction(SIGINT, &action, nullptr);
}

// The editor's source of characters: standard input, and Ctrl-C, which libedit itself would swallow.
int next_character(EditLine*, wchar_t* character) {
  std::mbstate_t state = {};
  for (;;) {
    if (InterruptFlag::pending()) return -1;
    char byte = 0;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return static_cast<int>(count);
    switch (std::mbrtowc(character, &byte, 1, &state)) {
      case static_cast<std::size_t>(-2):
        continue;  // more bytes of this character follow
      case static_cast<std::size_t>(-1):
        state = {};
        continue;  // not a character
      default:
        return 1;
    }
  }
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

struct LineReader::Editor {
  EditLine* edit = nullptr;
  History* history = nullptr;
  std::string prompt;

  explicit Editor(const std::string& text) : prompt(text) {
    setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");  // typed text is UTF-8 wherever this runs
    edit = el_init("fathom", stdin, stdout, stderr);
    history = history_init();
    HistEvent event;
    ::history(history, &event, H_SETSIZE, 1000);
    ::history(history, &event, H_SETUNIQUE, 1);
    el_set(edit, EL_CLIENTDATA, this);
    el_set(edit, EL_PROMPT, &Editor::show_prompt);
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_SIGNAL, 0);
    el_set(edit, EL_HIST, ::history, history);
    el_set(edit, EL_GETCFN, next_character);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;
  ~Editor() {
    history_end(history);
    el_end(edit);
  }

  static char* show_prompt(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return static_cast<Editor*>(self)->prompt.data();
  }
};

LineReader::LineReader(const std::string& prompt, bool edit)
    : prompt_(prompt), editor_(edit ? std::make_unique<Editor>(prompt) : nullptr) {}

LineReader::~LineReader() = default;

LineReader::Result LineReader::next() {
  std::string text;
  if (!editor_) {
    std::cout << prompt_ << std::flush;
    if (!std::getline(std::cin, text)) return {};
    if (!text.empty() && text.back() == '\r') text.pop_back();
    return {Kind::line, text};
  }
  InterruptFlag::take();
  // libedit shows the prompt before it takes the terminal over; what is typed in between would meet the kernel's own
  // line editing, which knows no UTF-8.
  el_set(editor_->edit, EL_PREP_TERM, 1);
  int count = 0;
  const char* line = el_gets(editor_->edit, &count);
  if (InterruptFlag::take()) {
    std::cout << "^C\n" << std::flush;
    el_reset(editor_->edit);
    return {Kind::interrupted, {}};
  }
  if (line == nullptr || count <= 0) return {};
  text.assign(line, static_cast<std::size_t>(count));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  HistEvent event;
  if (!text.empty()) history(editor_->history, &event, H_ENTER, text.c_str());
  return {Kind::line, text};
}

}  // namespace fathom
