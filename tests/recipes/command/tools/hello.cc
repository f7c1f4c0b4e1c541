#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tools/commands.h"

namespace fathom {

void add_hello(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("hello", "Greet someone");
  command->add_option("name", *name, "Who")->required();
  command->callback([name] { fmt::print("Hello, {}!\n", *name); });
}

}  // namespace fathom
