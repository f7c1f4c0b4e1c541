#include <CLI/CLI.hpp>
#include "tools/commands.h"
namespace fathom {
void add_inspect(CLI::App&) {}
}  // namespace fathom
