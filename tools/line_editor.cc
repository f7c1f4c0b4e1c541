#include "tools/line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <string_view>

#include "tools/line_reader.h"
#include "tools/output.h"

namespace fathom {
namespace {

// Keys that the editor would pass over in silence, and the tab, which has nothing to complete: they are text.
constexpr const char* kTextKeys[] = {"^I", "^O", "^Q", "^S", "^Z", "^\\", "^]", "^^", "^_"};
// How a terminal is asked to mark pastes, and how it does.
constexpr std::string_view kMarkPastes = "\033[?2004h", kMarkNoPastes = "\033[?2004l";
constexpr const char* kPasteKey = "\033[200~";
constexpr std::wstring_view kPasteEnd = L"\033[201~";
constexpr wchar_t kNoCharacter = 0xFFFD;

bool marks_pastes() {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && *terminal != '\0' && std::string_view(terminal) != "dumb";
}

}  // namespace

struct LineEditor::State {
  EditLine* edit = nullptr;
  History* history = nullptr;
  std::string prompt;
  std::optional<char> kept;  // a byte that was read, but belongs to the next character
  bool pastes = marks_pastes();

  State() {
    setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");  // typed text is UTF-8 wherever this runs
    edit = el_init("fathom", stdin, stdout, stderr);
    CHECK(edit != nullptr, "cannot edit lines at this terminal; take the input from a pipe");
    history = history_init();
    HistEvent event;
    ::history(history, &event, H_SETSIZE, 1000);
    ::history(history, &event, H_SETUNIQUE, 1);
    el_set(edit, EL_CLIENTDATA, this);
    el_set(edit, EL_PROMPT, &State::show_prompt);
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_SIGNAL, 0);
    el_set(edit, EL_HIST, ::history, history);
    el_set(edit, EL_GETCFN, &State::next_character);
    el_wset(edit, EL_ADDFN, L"insert-paste", L"Insert pasted text", &State::insert_paste);  // el_set leaks the names
    el_set(edit, EL_BIND, kPasteKey, "insert-paste", nullptr);
    el_set(edit, EL_SETTY, "-d", "-icrnl", "-inlcr", "-ixon", nullptr);  // line ends and Ctrl-S come as they are
    for (const char* key : kTextKeys) el_set(edit, EL_BIND, key, "ed-insert", nullptr);
    for (int c = 0x80; c < 0xA0; ++c) {  // characters whose numbers are those of keys with Meta
      const char key[] = {'\xC2', static_cast<char>(c), '\0'};
      el_set(edit, EL_BIND, key, "ed-insert", nullptr);
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    history_end(history);
    el_end(edit);
  }

  static State& of(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<State*>(self);
  }

  static char* show_prompt(EditLine* edit) { return of(edit).prompt.data(); }

  // The editor's source of characters: standard input, and Ctrl-C, which libedit itself would swallow. Bytes that are
  // no character show as U+FFFD.
  static int next_character(EditLine* edit, wchar_t* character) {
    State& self = of(edit);
    std::mbstate_t state = {};
    for (bool first = true;; first = false) {
      char byte = 0;
      if (const int got = self.next_byte(byte); got <= 0) return got;
      switch (std::mbrtowc(character, &byte, 1, &state)) {
        case static_cast<std::size_t>(-2):
          continue;  // more bytes of this character follow
        case static_cast<std::size_t>(-1):
          if (!first) self.kept = byte;
          *character = kNoCharacter;
          return 1;
        default:
          return 1;
      }
    }
  }

  // 1 with a byte, 0 at the end, -1 for an error or Ctrl-C.
  int next_byte(char& byte) {
    if (kept) {
      byte = *kept;
      kept.reset();
      return 1;
    }
    for (;;) {
      if (InterruptFlag::pending()) return -1;
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (count >= 0 || errno != EINTR) return static_cast<int>(count);
    }
  }

  static unsigned char insert_paste(EditLine* edit, int) {
    std::wstring text;
    for (wchar_t c = 0; !text.ends_with(kPasteEnd) && next_character(edit, &c) == 1;)
      text += c == L'\0' ? kNoCharacter : c;  // a zero would end the text
    if (text.ends_with(kPasteEnd)) text.resize(text.size() - kPasteEnd.size());
    std::wstring lines;  // terminals send line ends as Enter does
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] != L'\r')
        lines += text[i];
      else if (text.compare(i, 2, L"\r\n") != 0)
        lines += L'\n';
    return lines.empty() || el_winsertstr(edit, lines.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  void mark_pastes(bool on) const {
    if (pastes) write_output(on ? kMarkPastes : kMarkNoPastes);
  }
};

LineEditor::LineEditor() : state_(std::make_unique<State>()) {}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  State& s = *state_;
  s.prompt = prompt;
  // libedit shows the prompt before it takes the terminal over; what is typed in between would meet the kernel's own
  // line editing, which knows no UTF-8.
  el_set(s.edit, EL_PREP_TERM, 1);
  s.mark_pastes(true);
  int count = 0;
  const char* line = el_gets(s.edit, &count);
  s.mark_pastes(false);
  if (InterruptFlag::pending()) {
    el_reset(s.edit);
    return std::nullopt;
  }
  if (line == nullptr || count <= 0) return std::nullopt;
  std::string text(line, static_cast<std::size_t>(count));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  HistEvent event;
  if (!text.empty()) history(s.history, &event, H_ENTER, text.c_str());
  return text;
}

}  // namespace fathom
