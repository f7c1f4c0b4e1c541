// A checkpoint of one file a tensor: its name is the tensor's, its shape stands in shapes.txt.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint.h"

namespace fathom {

bool is_raw_folder(const std::filesystem::path& directory);
std::unique_ptr<Checkpoint> open_raw_folder(const std::filesystem::path& directory);

}  // namespace fathom
