// LineEditor: a line typed at a terminal, with editing, history, and pasted text taken whole.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace fathom {

class LineEditor {
 public:
  LineEditor();
  ~LineEditor();

  // What was typed up to Enter, without line ends behind it; tabs are part of it, and text pasted by a terminal that
  // marks pastes is with its line ends. Nothing at the end of the input or when Ctrl-C (see InterruptFlag) came first.
  std::optional<std::string> read(const std::string& prompt);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fathom
