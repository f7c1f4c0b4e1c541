#include "base/model_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/check.h"
#include "base/file.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeadBytes = 512;
constexpr i64 kMaxRefBytes = 1024;

std::string head_of(const fs::path& path) {
  if (!fs::is_regular_file(path)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string head(kHeadBytes, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

// The digits behind "size " of a Git LFS pointer; "" when there are none.
std::string pointer_size(std::string_view head) {
  const std::size_t at = head.find("\nsize ");
  if (at == std::string_view::npos) return {};
  head.remove_prefix(at + 6);
  return std::string(head.substr(0, std::min(head.find_first_not_of("0123456789"), head.size())));
}

// Without a byte-order mark and white space, in lower case.
std::string beginning_of_text(std::string_view head) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (head.starts_with(kMark)) head.remove_prefix(kMark.size());
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  std::string text(head);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// A header length of the format, then JSON: such a length may look like the mark of another format.
bool may_be_safetensors(std::string_view head) {
  return head.size() > 8 && head[8] == '{' && head.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

const char* other_format(std::string_view head) {
  using namespace std::string_view_literals;
  struct Mark {
    std::string_view bytes;
    const char* name;
  };
  constexpr std::array kMarks = {Mark{"GGUF", "a GGUF file"},        Mark{"PK\3\4", "a PyTorch file or ZIP archive"},
                                 Mark{"\x80\2", "a Python pickle"},  Mark{"\x80\4", "a Python pickle"},
                                 Mark{"\x1f\x8b", "a gzip archive"}, Mark{"\x89HDF", "an HDF5 file"}};
  for (const Mark& mark : kMarks)
    if (head.starts_with(mark.bytes)) return mark.name;
  return nullptr;
}

// Ends of names that downloads give to what is not finished, or put beside it.
constexpr std::array<std::string_view, 5> kUnfinished = {".aria2", ".part", ".incomplete", ".crdownload", ".download"};

bool may_be_needed(std::string_view name) {
  constexpr std::array<std::string_view, 5> kEnds = {".safetensors", ".json", ".jinja", ".model", ".py"};
  return !name.starts_with('.') &&
         std::any_of(kEnds.begin(), kEnds.end(), [&](std::string_view end) { return name.ends_with(end); });
}

// What stands in place of weights or JSON: nothing, or a text such as a server's "Entry not found". Empty for other
// files.
std::string other_text(const fs::path& path, std::string_view head) {
  const auto printable = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; };
  const bool json = path.extension() == ".json";
  if ((!json && path.extension() != ".safetensors") || !fs::is_regular_file(path)) return {};
  if (head.empty()) return fs::file_size(path) == 0 ? "is empty; download it again" : "";
  const std::string text = beginning_of_text(head);
  const bool other =
      json ? !text.empty() && text.front() != '{' && text.front() != '['
           : std::all_of(head.begin(), head.begin() + std::min<std::ptrdiff_t>(8, std::ssize(head)), printable);
  const auto end = std::find_if_not(head.begin(), head.begin() + std::min<std::ptrdiff_t>(60, std::ssize(head)),
                                    [](char c) { return c >= ' ' && c <= '~'; });
  return other ? fmt::format("is not the file itself, it begins with \"{}\"; download it again",
                             std::string_view(head.begin(), end))
               : "";
}

// What is wrong with the file, by its name and beginning; empty when nothing is.
std::string fault_of(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const std::string_view end : kUnfinished)
    if (name.ends_with(end) && may_be_needed(std::string_view(name).substr(0, name.size() - end.size())))
      return fmt::format(
          "{} is left of an unfinished download; let the download finish, or when {} is whole, remove it",
          path.string(), name.substr(0, name.size() - end.size()));
  if (!may_be_needed(name)) return {};
  if (fs::is_symlink(path) && !fs::exists(path))
    return fmt::format("{} is a link to {}, which is not there; finish the download", path.string(),
                       fs::read_symlink(path).string());
  const std::string what = what_file_is(path);
  return what.empty() ? what : fmt::format("{} {}", path.string(), what);
}

// The snapshots folder of the hub's cache that `path` names; empty when it is none.
fs::path snapshots_of(const fs::path& path) {
  const auto is_cache = [](const fs::path& folder) {
    return fs::is_directory(folder / "snapshots") &&
           (fs::is_directory(folder / "refs") || fs::is_directory(folder / "blobs") ||
            folder.filename().string().starts_with("models--"));
  };
  fs::path plain = fs::absolute(path / "").lexically_normal().parent_path();
  if (is_cache(plain)) return plain / "snapshots";
  if (plain.filename() == "snapshots" && is_cache(plain.parent_path())) return plain;
  return {};
}

fs::path chosen_snapshot(const fs::path& path, const fs::path& snapshots) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(snapshots))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  CHECK(!names.empty(), "{} is a folder of the hub's cache without a snapshot; download the model again",
        path.string());
  if (names.size() == 1) return snapshots / names.front();
  const fs::path main = snapshots.parent_path() / "refs" / "main";
  if (fs::is_regular_file(main)) {
    std::string name = read_file(main, kMaxRefBytes);
    name.erase(name.find_last_not_of(" \r\n") + 1);
    if (std::find(names.begin(), names.end(), name) != names.end()) return snapshots / name;
  }
  fail("{} is a folder of the hub's cache with several snapshots; name one of them: {}", path.string(),
       fmt::join(names, ", "));
}

}  // namespace

std::string what_file_is(const fs::path& path) {
  const std::string head = head_of(path);
  if (head.starts_with("version https://git-lfs.github.com/spec/")) {
    const std::string size = pointer_size(head);
    return fmt::format("is a Git LFS pointer{}, not the file itself; run \"git lfs pull\" in its folder",
                       size.empty() ? "" : fmt::format(" to {} bytes", size));
  }
  const std::string text = beginning_of_text(head);
  for (const char* begin : {"<!doctype html", "<html", "<?xml"})
    if (text.starts_with(begin))
      return "is a web page, probably an error or a login, not the file itself; download it again";
  if (may_be_safetensors(head)) return {};
  if (const char* format = other_format(head))
    return fmt::format(
        "is {}, which is not supported; get the model as safetensors files, as published on the Hugging Face hub",
        format);
  if (!head.empty() && head.find_first_not_of('\0') == std::string::npos)
    return "begins with zeros, as what was not downloaded to its end does; download it again";
  return other_text(path, head);
}

std::string read_model_file(const fs::path& path, i64 max_bytes) {
  const std::string what = what_file_is(path);
  CHECK(what.empty(), "{} {}", path.string(), what);
  return read_file(path, max_bytes);
}

std::vector<std::string> broken_files(const fs::path& directory) {
  std::vector<std::string> faults;
  for (const auto& entry : fs::directory_iterator(directory))
    if (std::string fault = fault_of(entry.path()); !fault.empty()) faults.push_back(std::move(fault));
  std::sort(faults.begin(), faults.end());
  return faults;
}

void check_model_files(const fs::path& directory) {
  const std::vector<std::string> faults = broken_files(directory);
  if (faults.empty()) return;
  fail("{}{}", faults.front(),
       faults.size() > 1 ? fmt::format(" ({} more files of the folder are not whole)", faults.size() - 1) : "");
}

fs::path model_directory(const fs::path& path) {
  CHECK(fs::exists(path), "model {} does not exist", path.string());
  if (!fs::is_directory(path)) {
    const std::string what = what_file_is(path);
    CHECK(what.empty(), "{} {}", path.string(), what);
    fail("{} is a file; name the directory of the model", path.string());
  }
  const fs::path snapshots = snapshots_of(path);
  return snapshots.empty() ? path : chosen_snapshot(path, snapshots);
}

}  // namespace fathom
