#include <memory>
#include <string>

#include "tools/command.h"
#include "tools/commands.h"
#include "tools/output.h"

namespace fathom {

void add_hello(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  Command command(app, "hello", "Greet someone");
  command.option("--name", *name, "Whom").required();
  command.run([name] { print_output("Hello, {}!\n", *name); });
}

}  // namespace fathom
