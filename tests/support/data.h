// Where a test finds its data and the sources.
#pragma once

#include <filesystem>

namespace fathom::test {

std::filesystem::path data_folder();  // the unpacked tests/data
std::filesystem::path source_folder();

}  // namespace fathom::test
