#include "checkpoint/raw_files.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/file.h"
#include "checkpoint/slice.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

class RawFolder final : public Checkpoint {
 public:
  explicit RawFolder(fs::path directory) : directory_(std::move(directory)) {
    std::istringstream lines(read_file(directory_ / "shapes.txt"));
    std::string name;
    for (i64 rows = 0, columns = 0; lines >> name >> rows >> columns;)
      tensors_.push_back({name, DType::bf16, {rows, columns}});
  }

  std::string description() const override { return directory_.string(); }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorInfo& info) { return info.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }
  void read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const override {
    const std::string bytes = read_file(directory_ / info.name);
    CHECK(static_cast<i64>(bytes.size()) == info.bytes(), "{}: {} has {} bytes", description(), info.name,
          bytes.size());
    if (slice.dim < 0)
      std::memcpy(out.data(), bytes.data(), bytes.size());
    else
      copy_slice(info, slice, std::as_bytes(std::span(bytes)), out);
  }

 private:
  fs::path directory_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace

bool is_raw_folder(const fs::path& directory) { return fs::exists(directory / "shapes.txt"); }

std::unique_ptr<Checkpoint> open_raw_folder(const fs::path& directory) {
  return std::make_unique<RawFolder>(directory);
}

}  // namespace fathom
