#include "support/safetensors.h"

#include <charconv>
#include <cstring>
#include <span>

#include "base/file.h"

namespace fathom::test {

Safetensors::Safetensors(const std::filesystem::path& path) : bytes_(read_file(path)) {
  std::uint64_t size;
  std::memcpy(&size, bytes_.data(), 8);
  header_ = bytes_.substr(8, size);
}

Tensor Safetensors::operator[](const std::string& name) const {
  const std::size_t entry = header_.find('"' + name + "\":");
  CHECK(entry != std::string::npos, "no tensor {} in the test file", name);
  const std::size_t type = header_.find("\"dtype\":\"", entry) + 9;
  const std::string dtype = header_.substr(type, header_.find('"', type) - type);
  const std::vector<i64> dims = numbers(header_.find("\"shape\":[", entry) + 9);
  const std::vector<i64> offsets = numbers(header_.find("\"data_offsets\":[", entry) + 16);
  return Tensor(const_cast<char*>(bytes_.data()) + 8 + header_.size() + offsets[0],
                dtype_from_safetensors(dtype).value(), Shape(std::span<const i64>(dims)));
}

std::vector<i64> Safetensors::numbers(std::size_t place) const {
  std::vector<i64> list;
  for (const char *p = header_.data() + place, *end = header_.data() + header_.size(); *p != ']';) {
    if (*p == ',' || *p == ' ') {
      ++p;
      continue;
    }
    i64 value = 0;
    p = std::from_chars(p, end, value).ptr;
    list.push_back(value);
  }
  return list;
}

}  // namespace fathom::test
