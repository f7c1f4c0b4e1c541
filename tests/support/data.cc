#include "support/data.h"

#include <cstdlib>

#include "base/check.h"

namespace fathom::test {
namespace {

std::filesystem::path from_environment(const char* name) {
  const char* folder = std::getenv(name);
  CHECK(folder != nullptr, "{} is not set: run the tests with ctest", name);
  return folder;
}

}  // namespace

std::filesystem::path data_folder() { return from_environment("FATHOM_TEST_DATA"); }
std::filesystem::path source_folder() { return from_environment("FATHOM_SOURCE_DIR"); }

}  // namespace fathom::test
