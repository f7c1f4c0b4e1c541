#include "rewrite/rewrite.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>

#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/thread_pool.h"
#include "checkpoint/file_checkpoint.h"
#include "checkpoint/slice.h"
#include "rewrite/folder_lock.h"
#include "rewrite/record.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr i64 kMaxCopyBytes = i64{1} << 30;
constexpr int kFilesAtOnce = 4;
constexpr i64 kSpareBytes = i64{16} << 20;  // room beyond the tensors: headers, tokenizer, file system

bool is_checkpoint_file(const std::string& name) {
  return name.ends_with(".safetensors") || name == kIndexFile || name == kManifestFile || name == kUnfinishedFile ||
         name.find(".safetensors.partial-") != std::string::npos || name.find(".json.partial") != std::string::npos;
}

// What a file takes of the disk; an unfinished one has room reserved.
i64 bytes_on_disk(const fs::path& path) {
  constexpr i64 kStatBlock = 512;
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<i64>(info.st_blocks) * kStatBlock : 0;
}

class Job {
 public:
  Job(const RewritePlan& plan, const RewriteOptions& options)
      : plan_(plan), options_(options), key_(plan_key(plan)), unfinished_(plan.target / kUnfinishedFile) {}

  // Decides what the target's content is to this plan: nothing, the same conversion, or another one (refused).
  void look() {
    check_place();
    if (!fs::exists(plan_.target)) return;
    const std::string state_file = state_name();
    if (!state_file.empty()) {
      try {
        Json state = read_record(plan_.target / state_file);
        if (state["plan"] == key_) found_ = std::move(state);
      } catch (const Error&) {  // a damaged one is another one
      }
      if (!found_.is_null() || options_.force) return;
      fail("{} holds another conversion ({} is of other arguments or of another source); --force replaces it",
           plan_.target.string(), state_file);
    }
    if (options_.force) return;
    for (const auto& entry : fs::directory_iterator(plan_.target)) {
      const std::string name = entry.path().filename().string();
      CHECK(!is_checkpoint_file(name),
            "{} already holds a checkpoint ({}); name an empty folder, or --force replaces it", plan_.target.string(),
            name);
    }
  }

  RewriteReport run(const std::function<void(i64, i64)>& progress) {
    check_place();
    const FolderLock lock(plan_.target);
    look();
    RewriteReport report;
    const bool complete = !found_.is_null() && !fs::exists(unfinished_);
    keep_finished();
    report.complete_before = complete && kept_.size() == plan_.outputs.size() && small_files_there();
    for (const OutputFile& output : plan_.outputs) report.tensors += static_cast<i64>(output.items.size());
    report.files = static_cast<int>(plan_.outputs.size());
    report.kept = static_cast<int>(kept_.size());
    report.bytes = plan_.bytes();
    if (report.complete_before) return report;
    check_room();
    sweep();
    save(unfinished_);
    fs::remove(plan_.target / kManifestFile);
    write_outputs(progress);
    report.kept_bytes = kept_bytes_;
    write_small_files();
    save(plan_.target / kManifestFile);
    fs::remove(unfinished_);
    return report;
  }

 private:
  void check_place() const {
    if (!fs::exists(plan_.target)) return;
    CHECK(fs::is_directory(plan_.target), "{} is a file; name a folder", plan_.target.string());
    CHECK(!fs::equivalent(plan_.source, plan_.target), "source and target are the same folder {}",
          plan_.source.string());
  }

  std::string state_name() const {
    for (const std::string_view name : {kUnfinishedFile, kManifestFile})
      if (fs::exists(plan_.target / name)) return std::string(name);
    return {};
  }

  bool resumes() const { return !found_.is_null() && !options_.restart; }

  // An unfinished file of an earlier run of the same plan.
  bool continues(const std::string& name) const {
    return resumes() && std::any_of(plan_.outputs.begin(), plan_.outputs.end(), [&](const OutputFile& output) {
             return !kept_.contains(output.name) && name.starts_with(output.name + ".partial-");
           });
  }

  // Files of an earlier run of the same plan that are finished.
  void keep_finished() {
    state_ = Json{{"kind", plan_.kind}, {"options", plan_.options}, {"plan", key_}, {"files", Json::object()}};
    if (!resumes()) return;
    for (const OutputFile& output : plan_.outputs) {
      const auto entry = found_["files"].find(output.name);
      const fs::path path = plan_.target / output.name;
      if (entry == found_["files"].end() || !entry->is_object() || !entry->contains("tensors") || !fs::exists(path))
        continue;
      if (entry->value("bytes", Json(-1)) != Json(static_cast<i64>(fs::file_size(path)))) continue;
      state_["files"][output.name] = *entry;
      kept_[output.name] = true;
    }
  }

  bool small_files_there() const {
    const auto there = [&](const std::string& name) { return fs::exists(plan_.target / name); };
    return std::all_of(plan_.copies.begin(), plan_.copies.end(), there) &&
           std::all_of(plan_.texts.begin(), plan_.texts.end(), [&](const auto& text) { return there(text.first); });
  }

  void check_room() const {
    i64 needed = kSpareBytes, present = 0;
    for (const OutputFile& output : plan_.outputs)
      if (!kept_.contains(output.name)) needed += output.bytes;
    for (const auto& entry : fs::directory_iterator(plan_.target))  // what will be replaced
      if (const std::string name = entry.path().filename().string(); is_checkpoint_file(name) && !kept_.contains(name))
        present += bytes_on_disk(entry.path());
    const i64 free = static_cast<i64>(fs::space(plan_.target).available) + present;
    CHECK(free >= needed, "{} has {} of free space, {} are needed", plan_.target.string(), bytes_text(free),
          bytes_text(needed));
  }

  // Removes what is not kept of earlier conversions and what a killed run left.
  void sweep() const {
    std::vector<fs::path> old;
    for (const auto& entry : fs::directory_iterator(plan_.target)) {
      const std::string name = entry.path().filename().string();
      const bool ours = is_checkpoint_file(name) || name.find(".partial-") != std::string::npos;
      if (ours && !kept_.contains(name) && name != kUnfinishedFile && name != kManifestFile && !continues(name))
        old.push_back(entry.path());
    }
    for (const fs::path& path : old) fs::remove(path);
  }

  void save(const fs::path& path) const { write_file(path, state_.dump(1) + "\n"); }

  // Several files at once: the hash of one file is a chain that keeps one core busy.
  void write_outputs(const std::function<void(i64, i64)>& progress) {
    std::vector<const OutputFile*> left;
    for (const OutputFile& output : plan_.outputs)
      if (!kept_.contains(output.name)) left.push_back(&output);
    i64 done = plan_.bytes();
    for (const OutputFile* output : left) done -= output->bytes;
    const int threads = options_.threads > 0 ? options_.threads : physical_cores();
    const int at_once = std::clamp(std::min(static_cast<int>(left.size()), threads), 1, kFilesAtOnce);
    std::mutex mutex;  // of all that follows, and of state_
    std::size_t next = 0;
    std::exception_ptr error;
    const auto hear = [&](i64 bytes) {
      const std::lock_guard lock(mutex);
      CHECK(!error, "another file failed");
      done += bytes;
      if (progress) progress(done, plan_.bytes());
    };
    const auto take = [&]() -> const OutputFile* {
      const std::lock_guard lock(mutex);
      return error || next == left.size() ? nullptr : left[next++];
    };
    const auto work = [&] {
      try {
        ThreadPool pool(std::max(1, threads / at_once));
        while (const OutputFile* output = take()) {
          const FileDigest digest =
              stream_tensors(*plan_.checkpoint, output->items, plan_.target / output->name, pool,
                             {.hash = true, .alone = at_once == 1, .resume = resumes(), .progress = hear});
          const std::lock_guard lock(mutex);
          kept_bytes_ += digest.kept_bytes;
          state_["files"][output->name] = record_of(digest);
          save(unfinished_);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    };
    ThreadPool(at_once).parallel_for(at_once, 1, [&](i64, i64, int) { work(); });
    if (error) std::rethrow_exception(error);
    Json ordered = Json::object();  // neither an interruption nor the order of their ends must show
    for (const OutputFile& output : plan_.outputs) ordered[output.name] = state_["files"][output.name];
    state_["files"] = std::move(ordered);
  }

  void write_small_files() {
    for (const std::string& name : plan_.copies) write_small(name, read_file(plan_.source / name, kMaxCopyBytes));
    for (const auto& [name, content] : plan_.texts) write_small(name, content);
  }

  void write_small(const std::string& name, std::string_view content) {
    write_file(plan_.target / name, content);
    state_["files"][name] = record_of(content);
  }

  const RewritePlan& plan_;
  const RewriteOptions& options_;
  std::string key_;
  fs::path unfinished_;
  Json found_, state_;                // the earlier run's record, and this one's
  std::map<std::string, bool> kept_;  // names of finished files
  i64 kept_bytes_ = 0;                // in the unfinished one
};

}  // namespace

std::string index_of(const std::vector<OutputFile>& outputs) {
  i64 total = 0;
  nlohmann::json map;  // sorted by name, as other programs write it
  for (const OutputFile& output : outputs) {
    total += output.bytes;
    for (const StreamItem& item : output.items) map[item.stored_name] = output.name;
  }
  Json index;
  index["metadata"]["total_size"] = total;
  index["weight_map"] = map;
  return index.dump(2) + "\n";
}

void RewritePlan::add(OutputFile& file, const std::string& stored_name, const TensorInfo& from, const Slice& slice,
                      bool costly) {
  CHECK(from.dtype != DType::unknown, "tensor {} is of type {}, which is not supported", from.name, from.type());
  file.items.push_back({stored_name, &from, slice, costly});
  file.bytes += slice_shape(from, slice).numel() * size_of(from.dtype);
}

i64 RewritePlan::bytes() const {
  i64 sum = 0;
  for (const OutputFile& output : outputs) sum += output.bytes;
  return sum;
}

RewriteReport rewrite(const RewritePlan& plan, const RewriteOptions& options,
                      const std::function<void(i64 done, i64 total)>& progress) {
  try {
    return Job(plan, options).run(progress);
  } catch (const fs::filesystem_error& error) {
    fail("cannot write {}: {}", plan.target.string(), error.what());
  }
}

void check_target(const RewritePlan& plan, const RewriteOptions& options) { Job(plan, options).look(); }

double measure_disk(const RewritePlan& plan) {
  fs::path folder = fs::absolute(plan.target);
  while (!fs::exists(folder)) folder = folder.parent_path();
  const std::vector<std::byte> block(std::size_t{1} << 20);
  const i64 blocks = std::clamp<i64>(plan.bytes() >> 20, 1, 64);
  std::string path = (folder / ".fathom-disk-XXXXXX").string();
  const int fd = ::mkstemp(path.data());
  CHECK(fd >= 0, "cannot write to {}", folder.string());
  ::unlink(path.c_str());
  const auto start = std::chrono::steady_clock::now();
  i64 written = 0;
  for (i64 i = 0; i < blocks; ++i) written += std::max<ssize_t>(0, ::write(fd, block.data(), block.size()));
  ::fsync(fd);
  ::close(fd);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(std::max<i64>(written, 1)) / std::max(seconds.count(), 1e-6);
}

}  // namespace fathom
