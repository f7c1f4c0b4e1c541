#include "tools/embedded_model.h"

#include <filesystem>

#include "base/check.h"

namespace fathom {

std::string embedded_model() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& place :
       {program.parent_path() / "../share/fathom/models/tiny", std::filesystem::path(FATHOM_SOURCE_DIR "/models/tiny")})
    if (std::filesystem::exists(place / "config.json", error)) return place.lexically_normal().string();
  fail("the embedded model is not at {}/models/tiny; name a model directory", FATHOM_SOURCE_DIR);
}

}  // namespace fathom
