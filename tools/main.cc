#include "tools/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app("Fathom runs the DeepSeek-V3 family of language models", "fathom");
  CLI11_PARSE(app, argc, argv);
  return 0;
}
