// Folders of models as downloads leave them: what their files really are, and where the cache of the hub keeps them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"

namespace fathom {

// The folder with the files of the model that `path` names: itself, or of a folder of the Hugging Face hub's cache
// ("models--o--m" or its "snapshots") the only snapshot or the one of refs/main. Throws Error when there is no such
// folder, when it is a file (saying which kind), or when several snapshots could be meant.
std::filesystem::path model_directory(const std::filesystem::path& path);

// What stands at `path` instead of what its name says, and what to do, as the end of a sentence: a Git LFS pointer, a
// web page, a server's answer, zeros, nothing, a file of another format. Empty when nothing is wrong with its
// beginning, or it cannot be read.
std::string what_file_is(const std::filesystem::path& path);

// The whole file, as read_file() gives it. Throws Error also when it is not what its name says.
std::string read_model_file(const std::filesystem::path& path, i64 max_bytes = i64{1} << 32);

// One line for each file of the folder that a model may need and that is not what its name says or not whole.
std::vector<std::string> broken_files(const std::filesystem::path& directory);

// Throws Error with the first of them.
void check_model_files(const std::filesystem::path& directory);

}  // namespace fathom
