// Hashes of files, and lists of what they should be.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/check.h"

namespace fathom {

// What a file should be.
struct KnownFile {
  i64 bytes = -1;                              // -1: not known
  std::string hash;                            // 64 digits: SHA-256; 40: SHA-1 as git makes it of a blob
  std::map<std::string, std::string> tensors;  // name -> SHA-256; may be empty
};
using KnownFiles = std::map<std::string, KnownFile>;

// Reads a manifest.json, or a list with lines "<hash>  <file>" as sha256sum writes them.
KnownFiles read_known_files(const std::filesystem::path& path);

// The files of a folder that are links into the cache of the Hugging Face hub, which names each file by its hash.
KnownFiles files_of_hub_cache(const std::filesystem::path& directory);

// What `hash` says it is: "SHA-256", or "git SHA-1".
std::string_view kind_of_hash(std::string_view hash);

// The hash of that kind of a file's bytes, in memory of one piece.
std::string hash_file(const std::filesystem::path& path, std::string_view kind);

}  // namespace fathom
