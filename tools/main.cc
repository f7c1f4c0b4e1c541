#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/check.h"
#include "tools/commands.h"

int main(int argc, char** argv) {
  CLI::App app("Fathom runs the DeepSeek-V3 family of language models", "fathom");
  app.set_version_flag("--version", FATHOM_VERSION);
  app.require_subcommand(1);
  fathom::add_tokenize(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    fmt::print(stderr, "fathom: error: {}\n", e.what());
    return 2;
  } catch (const fathom::UsageError& e) {
    fmt::print(stderr, "fathom: error: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "fathom: error: {}\n", e.what());
    return 1;
  }
  return 0;
}
