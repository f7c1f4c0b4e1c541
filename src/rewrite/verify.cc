#include "rewrite/verify.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/model_folder.h"
#include "base/thread_pool.h"
#include "checkpoint/file_checkpoint.h"
#include "checkpoint/json_text.h"
#include "rewrite/file_hashes.h"
#include "rewrite/inspect.h"
#include "rewrite/numbers.h"
#include "rewrite/pieces.h"
#include "rewrite/rewrite.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr i64 kMaxIndexBytes = i64{256} << 20;

using Files = std::vector<std::unique_ptr<SafetensorsFile>>;

// The files that belong to the checkpoint; those that the index names and that are missing are faults.
std::vector<fs::path> paths_of(const fs::path& directory, VerifyReport& report) {
  const fs::path index_path = directory / kIndexFile;
  if (!fs::exists(index_path) || !what_file_is(index_path).empty()) return safetensors_files(directory);
  std::set<std::string> names;
  const nlohmann::json index = parse_json(read_model_file(index_path, kMaxIndexBytes), index_path.string());
  CHECK(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(),
        "{} has no object \"weight_map\"", index_path.string());
  for (const auto& [tensor, file] : index["weight_map"].items())
    if (file.is_string()) names.insert(file.get<std::string>());
  std::vector<fs::path> paths;
  for (const std::string& name : names) {
    if (name.find('/') == std::string::npos && fs::exists(directory / name))
      paths.push_back(directory / name);
    else
      report.faults.push_back(fmt::format("{} is missing; {} names it", shown(name), kIndexFile));
  }
  return paths;
}

// Opens each file whose header is sound; the others are faults.
Files open_files(const std::vector<fs::path>& paths, VerifyReport& report) {
  Files files;
  for (const fs::path& path : paths) {
    if (!what_file_is(path).empty()) continue;  // told already
    try {
      files.push_back(std::make_unique<SafetensorsFile>(path));
    } catch (const Error& error) {
      report.faults.emplace_back(error.what());
    }
  }
  return files;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void look_at_numbers(const Files& files, const VerifyOptions& options, VerifyReport& report,
                     const std::function<void(i64, i64)>& progress) {
  const NumbersReport numbers = check_numbers(files, options.threads, progress);
  append(report.faults, numbers.faults);
  report.numbers_bytes = numbers.bytes;
  if (!numbers.skipped.empty())
    report.notes.push_back(fmt::format("the numbers of {} tensors were not looked at for their types, first {}",
                                       numbers.skipped.size(), numbers.skipped.front()));
}

void check_architecture(const fs::path& directory, const std::string& config, VerifyReport& report) {
  try {
    const InspectReport found = inspect({.model = directory.string(), .config = config});
    report.warnings = found.args.warnings;
    for (const std::string& name : found.missing) report.faults.push_back(fmt::format("tensor {} is missing", name));
    for (const std::string& text : found.mismatched) report.faults.push_back("tensor " + text);
    for (const std::string& name : found.stray_tensors)
      report.faults.push_back(fmt::format("tensor {} does not belong to the model", name));
    if (!found.derived_tensors.empty())
      report.notes.push_back(fmt::format("{} tensors follow from the configuration and are not used, first {}",
                                         found.derived_tensors.size(), found.derived_tensors.front()));
    for (const std::string& name : found.stray_files)
      report.notes.push_back(fmt::format("{} does not belong to the checkpoint", name));
  } catch (const Error& error) {
    report.faults.emplace_back(error.what());
  }
}

std::map<std::string, std::pair<const SafetensorsFile*, const TensorInfo*>> by_name(const Files& files) {
  std::map<std::string, std::pair<const SafetensorsFile*, const TensorInfo*>> map;
  for (const auto& file : files) {
    const std::string name = file->path().filename().string();
    const std::string place = name.find("-mp") != std::string::npos ? name + ": " : "";  // names repeat over the ranks
    for (const TensorInfo& info : file->tensors()) map.emplace(place + info.name, std::pair(file.get(), &info));
  }
  return map;
}

using Place = std::pair<const SafetensorsFile*, const TensorInfo*>;

// What differs between a tensor and that of another directory; empty when nothing does.
std::string compare_tensor(const std::string& name, const Place& mine, const Place& theirs, const fs::path& other) {
  const TensorInfo &a = *mine.second, &b = *theirs.second;
  if (a.type() != b.type() || a.shape != b.shape)
    return fmt::format("tensor {} is {} {}, in {} {} {}", shown(name), a.type(), to_string(a.shape), other.string(),
                       b.type(), to_string(b.shape));
  Pieces bytes(*mine.first, a), expected(*theirs.first, b);
  while (true) {
    const auto piece = bytes.next(), wanted = expected.next();
    if (piece.empty()) return {};
    if (std::memcmp(piece.data(), wanted.data(), piece.size()) != 0)
      return fmt::format("tensor {} differs from that in {}", shown(name), other.string());
  }
}

// Compares tensor by tensor with another directory.
void compare_directories(const Files& files, const fs::path& other, const VerifyOptions& options, VerifyReport& report,
                         const std::function<void(i64, i64)>& progress) {
  report.compared_with = other.string();
  const Files others = open_files(paths_of(other, report), report);
  const auto mine = by_name(files), theirs = by_name(others);
  std::vector<const std::pair<const std::string, Place>*> both;
  i64 total = 0;
  for (const auto& entry : mine) {
    if (theirs.contains(entry.first)) {
      both.push_back(&entry);
      total += entry.second.second->bytes();
    } else {
      report.faults.push_back(fmt::format("tensor {} is not in {}", shown(entry.first), other.string()));
    }
  }
  std::mutex mutex;
  std::vector<std::string> faults(both.size());
  ThreadPool pool(options.threads);
  pool.parallel_for(static_cast<i64>(both.size()), 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) {
      const auto& [name, place] = *both[static_cast<std::size_t>(i)];
      faults[static_cast<std::size_t>(i)] = compare_tensor(name, place, theirs.at(name), other);
      const std::lock_guard lock(mutex);
      report.hashed_bytes += place.second->bytes();
      if (progress) progress(report.hashed_bytes, total);
    }
  });
  for (std::string& fault : faults)
    if (!fault.empty()) report.faults.push_back(std::move(fault));
  for (const auto& [name, place] : theirs)
    if (!mine.contains(name))
      report.faults.push_back(fmt::format("tensor {} of {} is missing", shown(name), other.string()));
}

std::string tensor_hash(const SafetensorsFile& file, const TensorInfo& info) {
  Pieces pieces(file, info);
  Sha256 hash;
  for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next()) hash.update(piece);
  return hash.hex();
}

// The tensors whose hash is another than that of the manifest, as text.
std::string changed_tensors(const fs::path& path, const KnownFile& known) {
  std::string text;
  int changed = 0;
  const SafetensorsFile file(path);
  for (const auto& [name, sha256] : known.tensors) {
    const TensorInfo* info = file.find(name);
    if (info != nullptr && tensor_hash(file, *info) == sha256) continue;
    if (++changed == 1) text = fmt::format("; tensor {}", shown(name));
  }
  return changed > 1 ? text + fmt::format(" and {} more", changed - 1) : text;
}

std::string compare_file(const fs::path& directory, const std::string& name, const KnownFile& known) {
  const fs::path path = directory / name;
  if (!fs::exists(path)) return fmt::format("{} is missing", shown(name));
  const auto size = static_cast<i64>(fs::file_size(path));
  if (known.bytes >= 0 && size != known.bytes)
    return fmt::format("{} has {} bytes instead of {}", shown(name), size, known.bytes);
  const std::string_view kind = kind_of_hash(known.hash);
  if (hash_file(path, kind) == known.hash) return {};
  std::string changed;
  try {
    if (!known.tensors.empty()) changed = changed_tensors(path, known);
  } catch (const Error&) {  // its header is a fault of its own
  }
  return fmt::format("{} has another {} than {}...{}", shown(name), kind, known.hash.substr(0, 12), changed);
}

void compare_hashes(const fs::path& directory, const KnownFiles& known, const VerifyOptions& options,
                    VerifyReport& report, const std::function<void(i64, i64)>& progress) {
  std::vector<std::string> names;
  i64 total = 0, done = 0;
  const auto size_of_file = [&](const std::string& name) {
    return fs::exists(directory / name) ? static_cast<i64>(fs::file_size(directory / name)) : 0;
  };
  for (const auto& [name, file] : known) {
    names.push_back(name);
    total += size_of_file(name);
  }
  std::mutex mutex;
  std::vector<std::string> faults(names.size());
  ThreadPool pool(options.threads);
  pool.parallel_for(static_cast<i64>(names.size()), 1, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) {
      const std::string& name = names[static_cast<std::size_t>(i)];
      faults[static_cast<std::size_t>(i)] = compare_file(directory, name, known.at(name));
      const std::lock_guard lock(mutex);
      done += size_of_file(name);
      if (progress) progress(done, total);
    }
  });
  report.hashed_bytes += done;
  for (std::string& fault : faults)
    if (!fault.empty()) report.faults.push_back(std::move(fault));
}

}  // namespace

VerifyReport verify(const VerifyOptions& options, const std::function<void(i64, i64)>& progress) {
  const fs::path directory = model_directory(options.model);
  VerifyReport report;
  report.faults = broken_files(directory);
  std::vector<fs::path> paths;
  try {
    paths = paths_of(directory, report);
  } catch (const Error& error) {
    report.faults.emplace_back(error.what());
  }
  report.files = static_cast<i64>(paths.size());
  const Files files = open_files(paths, report);
  const bool sound = report.faults.empty();
  for (const auto& file : files) append(report.faults, check_scales(*file));
  if (sound)
    check_architecture(directory, options.config, report);
  else
    report.notes.emplace_back("tensors were not compared with the architecture, because files are damaged");
  if (options.numbers) look_at_numbers(files, options, report, progress);
  const fs::path own = directory / kManifestFile;
  fs::path against = !options.against.empty() ? options.against : fs::exists(own) ? own : fs::path();
  if (fs::is_directory(against)) against = model_directory(against);
  if (against.empty()) {
    const KnownFiles known = files_of_hub_cache(directory);
    if (known.empty()) return report;
    report.compared_with = "the hashes by which the hub's cache names its files";
    compare_hashes(directory, known, options, report, progress);
    return report;
  }
  if (fs::is_directory(against) && !fs::exists(against / kManifestFile)) {
    compare_directories(files, against, options, report, progress);
    return report;
  }
  const fs::path list = fs::is_directory(against) ? against / kManifestFile : against;
  report.compared_with = list.string();
  compare_hashes(directory, read_known_files(list), options, report, progress);
  return report;
}

}  // namespace fathom
