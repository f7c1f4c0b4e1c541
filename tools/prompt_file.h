// The prompts of a file, one a line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fathom {

// The lines of a UTF-8 file without the white space around them, as Python's readlines and strip give them: blank lines
// are prompts too. A byte-order mark before the first is no part of it. Throws Error for a file without lines, and
// naming the line that is not UTF-8.
std::vector<std::string> read_prompt_file(const std::filesystem::path& path);

}  // namespace fathom
