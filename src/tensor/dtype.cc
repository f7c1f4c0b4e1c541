#include "tensor/dtype.h"

#include <array>

namespace fathom {
namespace {

struct Row {
  DType dtype;
  i64 size;
  std::string_view name, safetensors;
};

constexpr std::array<Row, 10> kRows = {{
    {DType::f32, 4, "f32", "F32"},
    {DType::bf16, 2, "bf16", "BF16"},
    {DType::f16, 2, "f16", "F16"},
    {DType::e4m3, 1, "e4m3", "F8_E4M3"},
    {DType::e8m0, 1, "e8m0", "F8_E8M0"},
    {DType::i32, 4, "i32", "I32"},
    {DType::i64, 8, "i64", "I64"},
    {DType::u8, 1, "u8", "U8"},
    {DType::boolean, 1, "bool", "BOOL"},
    {DType::unknown, 0, "an unknown type", "?"},
}};

const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

i64 size_of(DType dtype) { return row(dtype).size; }
std::string_view name_of(DType dtype) { return row(dtype).name; }
std::string_view safetensors_name(DType dtype) { return row(dtype).safetensors; }

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& candidate : kRows)
    if (candidate.safetensors == name) return candidate.dtype;
  return std::nullopt;
}

}  // namespace fathom
