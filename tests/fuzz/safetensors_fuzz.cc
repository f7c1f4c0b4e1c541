// Any bytes as a safetensors file: refused with Error, or described so that every tensor lies inside the file.
#include <cstdint>
#include <cstdlib>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fathom;
  const auto file = std::as_bytes(std::span(data, size));
  try {
    const SafetensorsHeader header = parse_safetensors(file, "input");
    i64 sum = 0;
    for (std::size_t i = 0; i < header.tensors.size(); ++i) {
      const i64 begin = header.offsets[i], bytes = header.tensors[i].bytes();
      if (begin < 8 || bytes < 0 || begin > static_cast<i64>(size) - bytes) std::abort();
      for (const std::byte value : file.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes)))
        sum += static_cast<i64>(value);
    }
    if (sum < 0) std::abort();
    // What the writer would put first is itself a good header.
    std::string again = safetensors_header(header.tensors, header.metadata);
    for (const TensorInfo& info : header.tensors) again.append(static_cast<std::size_t>(info.bytes()), '\0');
    if (parse_safetensors(std::as_bytes(std::span(again)), "written").tensors.size() != header.tensors.size())
      std::abort();
  } catch (const Error&) {
  }
  return 0;
}
