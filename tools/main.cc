// The program: the list of commands, and errors turned into one line and an exit code.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/check.h"
#include "tools/commands.h"

namespace {

// One line on stderr, whatever the message holds.
int report(std::string message, int code) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  for (char& c : message)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  fmt::print(stderr, "fathom: error: {}\n", message);
  return code;
}

// A mapped file can become shorter, or its disk fail, while it is in use.
void on_bus_error(int) {
  constexpr std::string_view kText =
      "fathom: error: a file of the model can no longer be read: it became shorter or its disk failed\n";
  static_cast<void>(::write(STDERR_FILENO, kText.data(), kText.size()) + 1);
  ::_exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk, not the end
  std::signal(SIGBUS, on_bus_error);
  CLI::App app("Fathom runs the DeepSeek-V3 family of language models", "fathom");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("fathom ") + FATHOM_VERSION);
  fathom::add_chat(app);
  fathom::add_serve(app);
  fathom::add_generate(app);
  fathom::add_logits(app);
  fathom::add_tokenize(app);
  fathom::add_render(app);
  fathom::add_synth(app);
  fathom::add_inspect(app);
  fathom::add_bench(app);
  fathom::add_convert(app);
  fathom::add_fp8_cast(app);
  fathom::add_quantize(app);
  fathom::add_verify(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return report(fmt::format("{} (see fathom --help)", error.what()), 2);
  } catch (const fathom::UsageError& error) {
    return report(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return report("out of memory", 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}
