// safetensors files: a reader that trusts nothing it reads, and a writer that streams.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"

namespace fathom {

// What the header of a file says, checked; a type that is unknown is no fault of the file: the tensors cover all bytes
// after the header without hole or overlap.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their bytes
  std::vector<i64> offsets;         // of each, from the start of the file
  std::vector<i64> sizes;           // of each in bytes, known for unknown types too
  std::map<std::string, std::string> metadata;
};

// Reads and checks the header of `file` (all its bytes). Throws Error naming `source_name`, the tensor and the fault.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& source_name);

// One file, mapped. Reading is safe from several threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  ~SafetensorsFile();

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  i64 file_bytes() const { return static_cast<i64>(file_.bytes().size()); }

  // nullptr when the file has no such tensor.
  const TensorInfo* find(std::string_view name) const;
  // The bytes of the tensor of this name in the map; throws Error when there is none.
  std::span<const std::byte> bytes(std::string_view name) const;
  // Where they begin in the file.
  i64 offset(std::string_view name) const;
  // Copies bytes of the file without the map, so that they do not stay in the memory of this process and that a file
  // which shrinks meanwhile is an Error.
  void read_at(i64 offset, std::span<std::byte> out) const;
  // Lets the disk begin with bytes that will be read soon.
  void prefetch(i64 offset, i64 bytes) const;

 private:
  MappedFile file_;
  int descriptor_ = -1;
  SafetensorsHeader header_;
  std::unordered_map<std::string_view, std::size_t> index_;  // views of the names in header_
};

// Writes one file tensor by tensor, in memory of one piece. The file appears under its name with finish().
// Tensors stand in the order of the Python library (wide types first, then by name), which tensors() tells; the bytes
// of the file are those that it would write.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // The bytes before the tensors, which are already written.
  const std::string& header() const { return header_; }
  // The next bytes of the tensors, one after the other; pieces may end anywhere.
  void write(std::span<const std::byte> bytes);
  // Throws Error unless all bytes of all tensors were written.
  void finish();

 private:
  std::vector<TensorInfo> tensors_;
  std::string header_;
  AtomicFile file_;
  i64 left_ = 0;  // bytes still to come
};

// The tensors as the writer puts them into the file; throws Error when a name comes twice.
std::vector<TensorInfo> in_write_order(std::vector<TensorInfo> tensors);

// The header that the writer puts first: length field, JSON, padding to 8 bytes.
std::string safetensors_header(std::span<const TensorInfo> tensors, const std::map<std::string, std::string>& metadata);

}  // namespace fathom
