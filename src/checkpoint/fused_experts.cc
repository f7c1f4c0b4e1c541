#include "checkpoint/fused_experts.h"

#include <span>

#include "checkpoint/json_text.h"
#include "quant/fp8_block.h"

namespace fathom {
namespace {

constexpr std::string_view kExperts = ".mlp.experts.", kScale = "_scale_inv";
constexpr std::string_view kGateUp[] = {"gate_proj", "up_proj"}, kDown[] = {"down_proj"};
constexpr i64 kMostExperts = 1 << 14;

// The matrices of an expert that a tensor of this name holds, in their order; none when it is no such tensor.
std::span<const std::string_view> matrices_of(std::string_view name) {
  if (name == "gate_up_proj") return kGateUp;
  if (name == "down_proj") return kDown;
  return {};
}

}  // namespace

bool add_fused_experts(FileCheckpoint& checkpoint, const SafetensorsFile& file, const TensorInfo& stored) {
  const std::string_view name = stored.name;
  const std::size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return false;
  const std::string_view prefix = name.substr(0, at + kExperts.size());
  const bool scale = name.ends_with(kScale);
  const auto matrices =
      matrices_of(name.substr(prefix.size(), name.size() - prefix.size() - (scale ? kScale.size() : 0)));
  const auto name_of_part = [&](i64 expert, std::string_view matrix) {
    return fmt::format("{}{}.{}.weight{}", prefix, expert, matrix, scale ? kScale : "");
  };
  if (matrices.empty() || !reference_name(name_of_part(0, matrices[0]))) return false;

  const auto parts = static_cast<i64>(matrices.size());
  const Shape& shape = stored.shape;
  CHECK(shape.rank() == 3 && shape.numel() > 0 && shape[0] <= kMostExperts && shape[1] % parts == 0,
        "{}: fused experts {} have shape {}; [experts, {}rows, columns] is expected", file.path().string(),
        shown(stored.name), to_string(shape), parts == 1 ? "" : "2 * ");
  const i64 rows = shape[1] / parts;
  CHECK(
      stored.dtype != DType::e4m3 || parts == 1 || rows % kFp8Block == 0,
      "{}: fused experts {} in FP8 have {} rows of gate and of up, which then share blocks of scales; multiples of {} "
      "are supported",
      file.path().string(), shown(stored.name), rows, kFp8Block);
  i64 begin = 0;
  for (i64 expert = 0; expert < shape[0]; ++expert)
    for (const std::string_view matrix : matrices) {
      const TensorInfo part{name_of_part(expert, matrix), stored.dtype, {rows, shape[2]}};
      checkpoint.add_tensor({&file, part, &stored, begin}, *reference_name(part.name));
      begin += part.bytes();
    }
  return true;
}

}  // namespace fathom
