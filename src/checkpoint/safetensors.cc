#include "checkpoint/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "checkpoint/json_text.h"

namespace fathom {
namespace {

using json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr i64 kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr i64 kLengthBytes = 8;

struct Entry {
  TensorInfo info;
  i64 begin = 0, end = 0;  // from the end of the header
};

i64 natural(const json& value, const std::string& where) {
  CHECK(value.is_number_unsigned() && value.get<std::uint64_t>() <= std::uint64_t{1} << 62,
        "{} must be a number from 0 to 2^62, not {}", where, shown_json(value));
  return value.get<i64>();
}

const json& member(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  CHECK(found != object.end(), "{} has no \"{}\"", where, key);
  return *found;
}

Shape parse_shape(const json& value, const std::string& where) {
  CHECK(value.is_array(), "{}: shape must be a list, not {}", where, shown_json(value));
  CHECK(value.size() <= Shape::kMaxRank, "{} has {} dimensions; at most {} are supported", where, value.size(),
        Shape::kMaxRank);
  std::vector<i64> dims;
  for (const json& dim : value) dims.push_back(natural(dim, where + ": a dimension"));
  return Shape(dims);
}

// The bytes of the tensor (of an unknown type: its elements); throws when the product leaves 63 bits.
i64 checked_bytes(const TensorInfo& info, const std::string& where) {
  i64 bytes = std::max<i64>(1, size_of(info.dtype));
  for (int i = 0; i < info.shape.rank(); ++i)
    CHECK(!__builtin_mul_overflow(bytes, info.shape[i], &bytes), "{}: shape {} is impossibly large", where,
          to_string(info.shape));
  return bytes;
}

Entry parse_entry(const std::string& name, const json& value, const std::string& source_name) {
  const std::string where = fmt::format("{}: tensor {}", source_name, shown(name));
  CHECK(value.is_object(), "{} must be described by an object, not {}", where, shown_json(value));
  Entry entry;
  entry.info.name = name;
  const json& dtype = member(value, "dtype", where);
  CHECK(dtype.is_string(), "{}: dtype must be a text, not {}", where, shown_json(dtype));
  entry.info.dtype = dtype_from_safetensors(dtype.get_ref<const std::string&>()).value_or(DType::unknown);
  if (entry.info.dtype == DType::unknown) entry.info.other_type = shown(dtype.get_ref<const std::string&>());
  entry.info.shape = parse_shape(member(value, "shape", where), where);
  const json& offsets = member(value, "data_offsets", where);
  CHECK(offsets.is_array() && offsets.size() == 2, "{}: data_offsets must be two numbers, not {}", where,
        shown_json(offsets));
  entry.begin = natural(offsets[0], where + ": data_offsets");
  entry.end = natural(offsets[1], where + ": data_offsets");
  const i64 bytes = checked_bytes(entry.info, where);
  const bool known = entry.info.dtype != DType::unknown;
  CHECK(entry.begin <= entry.end && (!known || entry.end - entry.begin == bytes),
        "{}: data_offsets [{}, {}] do not hold the {} bytes of {} {}", where, entry.begin, entry.end, bytes,
        entry.info.type(), to_string(entry.info.shape));
  return entry;
}

std::map<std::string, std::string> parse_metadata(const json& value, const std::string& source_name) {
  CHECK(value.is_object(), "{}: __metadata__ must be an object, not {}", source_name, shown_json(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    CHECK(text.is_string(), "{}: __metadata__ {} must be a text, not {}", source_name, shown(key), shown_json(text));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// The tensors must follow each other without hole or overlap from the end of the header to the end of the file.
void check_coverage(const std::vector<Entry>& entries, i64 data_start, i64 file_size, const std::string& source_name) {
  i64 end = 0;
  for (const Entry& entry : entries) {
    CHECK(entry.begin >= end, "{}: tensor {} overlaps the one before it (begins at {}, that ends at {})", source_name,
          shown(entry.info.name), entry.begin, end);
    CHECK(entry.begin == end, "{}: {} bytes before tensor {} belong to no tensor", source_name, entry.begin - end,
          shown(entry.info.name));
    end = entry.end;
  }
  CHECK(file_size >= data_start + end, "{} is truncated: {} of {} bytes", source_name, file_size, data_start + end);
  CHECK(file_size == data_start + end, "{}: {} bytes after the last tensor belong to no tensor", source_name,
        file_size - data_start - end);
}

// The JSON between the length field and the data.
std::string_view header_text(std::span<const std::byte> file, const std::string& source_name) {
  const i64 size = static_cast<i64>(file.size());
  CHECK(size >= kLengthBytes, "{} is truncated: {} bytes, a safetensors file has at least {}", source_name, size,
        kLengthBytes);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  CHECK(length <= kMaxHeaderBytes, "{} is not a safetensors file: its header would have {} bytes (limit {})",
        source_name, length, kMaxHeaderBytes);
  const i64 data_start = kLengthBytes + static_cast<i64>(length);
  CHECK(size >= data_start, "{} is truncated: {} of at least {} bytes", source_name, size, data_start);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  CHECK(text.starts_with('{'), "{} is not a safetensors file: its header is no JSON object", source_name);
  return text;
}

// Position of a dtype in the order in which the Python library writes tensors.
int write_rank(DType dtype) {
  constexpr std::array kOrder = {DType::i64,  DType::f32,  DType::i32, DType::bf16,   DType::f16,
                                 DType::e8m0, DType::e4m3, DType::u8,  DType::boolean};
  return static_cast<int>(std::find(kOrder.begin(), kOrder.end(), dtype) - kOrder.begin());
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& source_name) {
  const std::string_view text = header_text(file, source_name);
  const json object = parse_json(text, source_name, 8);
  SafetensorsHeader header;
  std::vector<Entry> entries;
  for (const auto& [name, value] : object.items()) {
    if (name == "__metadata__")
      header.metadata = parse_metadata(value, source_name);
    else
      entries.push_back(parse_entry(name, value, source_name));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end != b.end ? a.end < b.end : a.info.name < b.info.name;
  });
  const i64 data_start = kLengthBytes + static_cast<i64>(text.size());
  check_coverage(entries, data_start, static_cast<i64>(file.size()), source_name);
  for (Entry& entry : entries) {
    header.offsets.push_back(data_start + entry.begin);
    header.sizes.push_back(entry.end - entry.begin);
    header.tensors.push_back(std::move(entry.info));
  }
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), header_(parse_safetensors(file_.bytes(), path.string())) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) index_.emplace(header_.tensors[i].name, i);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(descriptor_ >= 0, "cannot open {}: {}", path.string(), std::strerror(errno));
}

SafetensorsFile::~SafetensorsFile() { ::close(descriptor_); }

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

std::span<const std::byte> SafetensorsFile::bytes(std::string_view name) const {
  const auto found = index_.find(name);
  CHECK(found != index_.end(), "{} has no tensor {}", path().string(), name);
  return file_.bytes().subspan(static_cast<std::size_t>(header_.offsets[found->second]),
                               static_cast<std::size_t>(header_.sizes[found->second]));
}

i64 SafetensorsFile::offset(std::string_view name) const { return bytes(name).data() - file_.bytes().data(); }

void SafetensorsFile::read_at(i64 offset, std::span<std::byte> out) const {
  fathom::read_at(descriptor_, path(), offset, out);
}

void SafetensorsFile::prefetch(i64 offset, i64 bytes) const {
  if (bytes > 0) ::posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);
}

std::vector<TensorInfo> in_write_order(std::vector<TensorInfo> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    const int left = write_rank(a.dtype), right = write_rank(b.dtype);
    return left != right ? left < right : a.name < b.name;
  });
  std::unordered_set<std::string_view> names;
  for (const TensorInfo& info : tensors)
    CHECK(names.insert(info.name).second, "tensor {} would be written twice", info.name);
  return tensors;
}

std::string safetensors_header(std::span<const TensorInfo> tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  if (!metadata.empty()) object["__metadata__"] = metadata;
  i64 offset = 0;
  std::string text = object.dump();
  text.pop_back();  // entries are appended by hand: an ordered object looks up each key among all before it
  for (const TensorInfo& info : tensors) {
    if (text.size() > 1) text += ',';
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[", json(info.name).dump(), safetensors_name(info.dtype));
    for (int i = 0; i < info.shape.rank(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", info.shape[i]);
    text += fmt::format("],\"data_offsets\":[{},{}]}}", offset, offset + info.bytes());
    offset += info.bytes();
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(in_write_order(std::move(tensors))), header_(safetensors_header(tensors_, metadata)), file_(path) {
  for (const TensorInfo& info : tensors_) left_ += info.bytes();
  file_.write(header_);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  CHECK(static_cast<i64>(bytes.size()) <= left_, "{} bytes more than the tensors have",
        static_cast<i64>(bytes.size()) - left_);
  file_.write(bytes);
  left_ -= static_cast<i64>(bytes.size());
}

void SafetensorsWriter::finish() {
  CHECK(left_ == 0, "{} bytes of the tensors were not written", left_);
  file_.commit();
}

}  // namespace fathom
