#include "rewrite/file_hashes.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/model_folder.h"
#include "checkpoint/json_text.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr i64 kMaxListBytes = i64{1} << 30;
constexpr std::size_t kHashDigits = 64;

constexpr std::size_t kGitHashDigits = 40;
constexpr std::string_view kGitHash = "git SHA-1";

bool is_hash(std::string_view text, std::size_t digits = kHashDigits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The digest of a file's bytes behind those that `hash` has.
template <typename Hash>
std::string hash_into(Hash& hash, const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.is_open(), "cannot open {}", path.string());
  std::vector<char> piece(std::size_t{1} << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
    hash.update(std::as_bytes(std::span(piece.data(), static_cast<std::size_t>(file.gcount()))));
  CHECK(!file.bad(), "cannot read {}", path.string());
  return hash.hex();
}

// A name that cannot leave the folder.
void check_name(const std::string& name, const std::string& source_name) {
  CHECK(!name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos,
        "{}: \"{}\" is no name of a file in one folder", source_name, shown(name));
}

KnownFile parse_file(const std::string& name, const nlohmann::json& entry, const std::string& source_name) {
  const bool usable = entry.is_object() && entry.contains("sha256") && entry["sha256"].is_string() &&
                      entry.contains("bytes") && entry["bytes"].is_number_unsigned();
  CHECK(usable, "{}: {} has no bytes and sha256", source_name, shown(name));
  KnownFile known{entry["bytes"].get<i64>(), entry["sha256"].get<std::string>(), {}};
  if (!entry.contains("tensors")) return known;
  for (const auto& [tensor, facts] : entry["tensors"].items())
    if (facts.is_object() && facts.contains("sha256") && facts["sha256"].is_string())
      known.tensors[tensor] = facts["sha256"].get<std::string>();
  return known;
}

KnownFiles parse_manifest(const std::string& text, const std::string& source_name) {
  const nlohmann::json manifest = parse_json(text, source_name);
  CHECK(manifest.is_object() && manifest.contains("files") && manifest["files"].is_object(),
        "{} has no object \"files\"", source_name);
  KnownFiles files;
  for (const auto& [name, entry] : manifest["files"].items()) {
    check_name(name, source_name);
    files[name] = parse_file(name, entry, source_name);
  }
  return files;
}

KnownFiles parse_list(const std::string& text, const std::string& source_name) {
  KnownFiles files;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    std::string hash = line.substr(0, line.find(' '));
    std::transform(hash.begin(), hash.end(), hash.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string name = line.size() > kHashDigits ? line.substr(kHashDigits) : "";
    name.erase(0, std::min(name.find_first_not_of(" *"), name.size()));
    if (name.starts_with("./")) name.erase(0, 2);
    CHECK(is_hash(hash), "{}: line {} is no \"<sha256>  <file>\"", source_name, number);
    check_name(name, source_name);
    files[name] = {-1, hash, {}};
  }
  CHECK(!files.empty(), "{} lists no file", source_name);
  return files;
}

}  // namespace

KnownFiles read_known_files(const fs::path& path) {
  const std::string text = read_model_file(path, kMaxListBytes);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && text[first] == '{';
  return json ? parse_manifest(text, path.string()) : parse_list(text, path.string());
}

KnownFiles files_of_hub_cache(const fs::path& directory) {
  KnownFiles files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!entry.is_symlink()) continue;
    const std::string target = fs::read_symlink(entry.path()).filename().string();
    if (is_hash(target) || is_hash(target, kGitHashDigits)) files[entry.path().filename().string()] = {-1, target, {}};
  }
  return files;
}

std::string_view kind_of_hash(std::string_view hash) { return hash.size() == kGitHashDigits ? kGitHash : "SHA-256"; }

std::string hash_file(const fs::path& path, std::string_view kind) {
  if (kind != kGitHash) {
    Sha256 hash;
    return hash_into(hash, path);
  }
  Sha1 hash;
  const std::string start = fmt::format("blob {}", fs::file_size(path));
  hash.update(std::as_bytes(std::span(start.c_str(), start.size() + 1)));
  return hash_into(hash, path);
}

}  // namespace fathom
