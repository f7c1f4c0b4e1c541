// The program: the list of commands, and errors turned into one line and an exit code.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/mapped_path.h"
#include "tools/commands.h"
#include "tools/output.h"

namespace {

// A mapped file can become shorter, or its disk fail, while it is in use.
void on_bus_error(int, siginfo_t* info, void*) {
  constexpr std::string_view kBegin = "fathom: error: cannot read ", kEnd = ": it became shorter or its disk failed\n";
  char path[4096];
  std::string_view name = fathom::mapped_path(info->si_addr, path);
  if (name.empty()) name = "memory";
  char line[sizeof path + kBegin.size() + kEnd.size()];
  std::size_t length = 0;
  for (const std::string_view part : {kBegin, name, kEnd}) length += part.copy(line + length, part.size());
  static_cast<void>(::write(STDERR_FILENO, line, length) + 1);
  ::_exit(1);
}

void set_signals() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk, not the end
  struct sigaction bus = {};
  bus.sa_sigaction = on_bus_error;
  bus.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &bus, nullptr);
}

int report(const std::string& message, int status) {
  fathom::print_error(message);
  return status;
}

int parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help and --version
      std::ostringstream text;
      app.exit(asked, text, text);
      fathom::write_output(text.str());
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    return report(fmt::format("{} (see fathom --help)", error.what()), 2);
  } catch (const fathom::UsageError& error) {
    return report(error.what(), 2);
  } catch (const fathom::ToldError&) {
    return 1;
  } catch (const std::bad_alloc&) {
    return report("out of memory", 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fathom::prepare_standard_streams();
  set_signals();
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
  return parse_and_run(app, argc, argv);
}
