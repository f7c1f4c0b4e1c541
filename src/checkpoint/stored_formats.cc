// FP8 matrices as bf16, and the other way.
#include <algorithm>

#include "checkpoint/json_text.h"
#include "checkpoint/slice.h"
#include "checkpoint/stored.h"
#include "quant/fp8_block.h"

namespace fathom {
namespace {

constexpr std::string_view kInverseScale = "_scale_inv", kScale = "_scale";

// Rows of a slice, which must begin at a block.
struct Rows {
  i64 first, count;
};

Rows rows_of(const TensorInfo& info, const Slice& slice, i64 unit) {
  if (slice.dim < 0) return {0, info.shape[0]};
  CHECK(slice.dim == 0 && slice.start % unit == 0, "reading {}: rows from a multiple of {} on are needed", info.name,
        unit);
  return {slice.start, slice.length};
}

// Numbers of a stored type as float32.
std::vector<float> widen(const std::vector<std::byte>& bytes, const TensorInfo& info) {
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(size_of(info.dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (info.dtype == DType::f32)
      values[i] = reinterpret_cast<const float*>(bytes.data())[i];
    else if (info.dtype == DType::bf16)
      values[i] = bf16_to_float(reinterpret_cast<const bf16_bits*>(bytes.data())[i]);
    else
      values[i] = e8m0_to_float(static_cast<e8m0_bits>(bytes[i]));
  }
  return values;
}

std::vector<float> read_numbers(const StoredCheckpoint& stored, const TensorInfo& info, const Slice& slice) {
  const Shape part = slice_shape(info, slice);
  std::vector<std::byte> bytes(static_cast<std::size_t>(part.numel() * size_of(info.dtype)));
  stored.read(info, slice, bytes);
  return widen(bytes, info);
}

const TensorInfo* scale_of(const StoredCheckpoint& stored, const std::string& matrix) {
  const TensorInfo* found = stored.find(matrix + std::string(kInverseScale));
  return found != nullptr ? found : stored.find(matrix + std::string(kScale));
}

void check_scale(const StoredCheckpoint& stored, const TensorInfo& matrix, const TensorInfo& scale) {
  const int rank = matrix.shape.rank();
  CHECK(rank == 2 || rank == 3, "{}: FP8 tensor {} has shape {}; matrices and stacks of them are cast",
        stored.description(), shown(matrix.name), to_string(matrix.shape));
  Shape grid = matrix.shape;
  for (int dim = rank - 2; dim < rank; ++dim) grid[dim] = blocks_of(grid[dim]);
  CHECK(scale.shape == grid, "{}: scales {} have shape {}; {} needs {}", stored.description(), shown(scale.name),
        to_string(scale.shape), to_string(matrix.shape), to_string(grid));
  CHECK(scale.dtype == DType::f32 || scale.dtype == DType::bf16 || scale.dtype == DType::e8m0,
        "{}: scales {} are of type {}; f32, bf16 and e8m0 are supported", stored.description(), shown(scale.name),
        name_of(scale.dtype));
}

bool is_scale(const StoredCheckpoint& stored, const std::string& name) {
  if (name.ends_with(kInverseScale)) return true;
  if (!name.ends_with(kScale)) return false;
  const TensorInfo* matrix = stored.find(name.substr(0, name.size() - kScale.size()));
  return matrix != nullptr && matrix->dtype == DType::e4m3;
}

}  // namespace

CastCheckpoint::CastCheckpoint(const StoredCheckpoint& stored, bool allow_missing_scale) : stored_(stored) {
  for (const TensorInfo& info : stored.tensors())
    if (!is_scale(stored, info.name)) add(info, allow_missing_scale);
}

void CastCheckpoint::add(const TensorInfo& info, bool allow_missing_scale) {
  TensorInfo cast = info;
  if (info.dtype == DType::e4m3) {
    const TensorInfo* scale = scale_of(stored_, info.name);
    CHECK(scale != nullptr || allow_missing_scale,
          "{}: FP8 matrix {} has no {}{} (--allow-missing-scale copies it as it is)", stored_.description(),
          shown(info.name), shown(info.name), kInverseScale);
    if (scale != nullptr) {
      check_scale(stored_, info, *scale);
      scales_.emplace(info.name, scale);
      cast.dtype = DType::bf16;
    } else {
      unscaled_.push_back(info.name);
    }
  }
  index_.emplace(cast.name, tensors_.size());
  tensors_.push_back(std::move(cast));
}

const TensorInfo* CastCheckpoint::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void CastCheckpoint::read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const {
  const TensorInfo* stored = stored_.find(info.name);
  CHECK(stored != nullptr, "{} has no tensor {}", description(), info.name);
  const auto scale = scales_.find(info.name);
  if (scale == scales_.end()) return stored_.read(*stored, slice, out);
  const bool stack = stored->shape.rank() == 3;  // whose slices are whole matrices
  const Rows part = rows_of(*stored, slice, stack ? 1 : kFp8Block);
  const i64 matrices = stack ? part.count : 1, rows = stack ? stored->shape[1] : part.count;
  const i64 columns = stored->shape[stack ? 2 : 1];
  const auto count = static_cast<std::size_t>(matrices * rows * columns);
  CHECK(out.size() == count * 2, "reading {}: {} bytes of room", info.name, out.size());
  const auto codes = std::make_unique_for_overwrite<std::byte[]>(count);  // a vector would fill it first
  stored_.read(*stored, slice, {codes.get(), count});
  const Slice blocks =
      stack ? Slice{0, part.first, part.count} : Slice{0, part.first / kFp8Block, blocks_of(part.count)};
  const std::vector<float> scales = read_numbers(stored_, *scale->second, blocks);
  for (i64 i = 0; i < matrices; ++i)
    dequantize_weight(reinterpret_cast<const e4m3_bits*>(codes.get()) + i * rows * columns,
                      scales.data() + i * blocks_of(rows) * blocks_of(columns), rows, columns,
                      reinterpret_cast<bf16_bits*>(out.data()) + i * rows * columns);
}

QuantizedCheckpoint::QuantizedCheckpoint(const StoredCheckpoint& stored,
                                         const std::unordered_set<std::string>& matrices, bool power_of_two_scales)
    : stored_(stored), power_of_two_(power_of_two_scales) {
  for (const TensorInfo& info : stored.tensors()) {
    tensors_.push_back(info);
    if (!matrices.contains(info.name)) continue;
    CHECK(info.shape.rank() == 2 && (info.dtype == DType::bf16 || info.dtype == DType::f32),
          "{}: {} is {} {}; bf16 or f32 matrices are quantised", description(), shown(info.name), name_of(info.dtype),
          to_string(info.shape));
    const std::string scale = info.name + std::string(kInverseScale);
    sources_.emplace(info.name, &info);
    sources_.emplace(scale, &info);
    tensors_.back().dtype = DType::e4m3;
    tensors_.push_back({scale, DType::f32, {blocks_of(info.shape[0]), blocks_of(info.shape[1])}});
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    CHECK(index_.emplace(tensors_[i].name, i).second, "{}: {} is there already", description(),
          shown(tensors_[i].name));
}

const TensorInfo* QuantizedCheckpoint::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorInfo* QuantizedCheckpoint::matrix_of_scale(const TensorInfo& info) const {
  const auto found = sources_.find(info.name);
  return found == sources_.end() || found->second->name == info.name ? nullptr : found->second;
}

void QuantizedCheckpoint::quantize_rows(const TensorInfo& matrix, i64 row, i64 rows, e4m3_bits* codes,
                                        float* scales) const {
  const i64 columns = matrix.shape[1];
  std::vector<e4m3_bits> room(codes == nullptr ? static_cast<std::size_t>(kFp8Block * columns) : 0);
  for (i64 done = 0; done < rows; done += kFp8Block) {
    const i64 count = std::min(kFp8Block, rows - done);
    const std::vector<float> values = read_numbers(stored_, matrix, {0, row + done, count});
    for (const float value : values)
      CHECK(std::isfinite(value), "{}: {} holds NaN or infinity in rows {} to {}", description(), shown(matrix.name),
            row + done, row + done + count - 1);
    quantize_weight(values.data(), count, columns, power_of_two_,
                    codes == nullptr ? room.data() : codes + done * columns,
                    scales + done / kFp8Block * blocks_of(columns));
  }
}

void QuantizedCheckpoint::read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const {
  const TensorInfo* known = find(info.name);
  CHECK(known != nullptr, "{} has no tensor {}", description(), info.name);
  const auto source = sources_.find(info.name);
  if (source == sources_.end()) return stored_.read(*known, slice, out);
  const TensorInfo& matrix = *source->second;
  CHECK(static_cast<i64>(out.size()) == slice_shape(*known, slice).numel() * size_of(known->dtype),
        "reading {}: {} bytes of room", info.name, out.size());
  if (known->dtype == DType::e4m3) {
    const Rows rows = rows_of(*known, slice, kFp8Block);
    std::vector<float> scales(static_cast<std::size_t>(blocks_of(rows.count) * blocks_of(matrix.shape[1])));
    return quantize_rows(matrix, rows.first, rows.count, reinterpret_cast<e4m3_bits*>(out.data()), scales.data());
  }
  const Rows blocks = rows_of(*known, slice, 1);
  const i64 first = blocks.first * kFp8Block;
  const i64 end = std::min(matrix.shape[0], (blocks.first + blocks.count) * kFp8Block);
  quantize_rows(matrix, first, end - first, nullptr, reinterpret_cast<float*>(out.data()));
}

}  // namespace fathom
