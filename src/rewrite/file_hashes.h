// SHA-256 of files, and lists of what they should be.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/check.h"

namespace fathom {

// What a file should be.
struct KnownFile {
  i64 bytes = -1;  // -1: not known
  std::string sha256;
  std::map<std::string, std::string> tensors;  // name -> SHA-256; may be empty
};
using KnownFiles = std::map<std::string, KnownFile>;

// Reads a manifest.json, or a list with lines "<hash>  <file>" as sha256sum writes them.
KnownFiles read_known_files(const std::filesystem::path& path);

// SHA-256 of a file's bytes, in memory of one piece.
std::string hash_file(const std::filesystem::path& path);

}  // namespace fathom
