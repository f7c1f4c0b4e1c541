#include "model/paired_rope.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/slice.h"
#include "quant/fp8_block.h"

namespace fathom {
namespace {

// Where row `row` of the view lies in the source.
i64 source_row(i64 row, i64 head, i64 rotated) {
  const i64 at = row % head - (head - rotated);
  return at < 0 ? row : row - at + at / 2 + at % 2 * (rotated / 2);
}

}  // namespace

PairedRopeCheckpoint::PairedRopeCheckpoint(const Checkpoint& source, const ModelArgs& args)
    : source_(source),
      query_(args.qk_head_dim()),
      key_(args.kv_lora_rank + args.qk_rope_head_dim),
      rotated_(args.qk_rope_head_dim) {
  check_scales();
}

PairedRopeCheckpoint::PairedRopeCheckpoint(std::unique_ptr<Checkpoint> source, const ModelArgs& args)
    : PairedRopeCheckpoint(*source, args) {
  owned_ = std::move(source);
}

PairedRopeCheckpoint::Order PairedRopeCheckpoint::order_of(const TensorInfo& info) const {
  const std::string name = reference_name(info.name).value_or(info.name);
  const bool queries = name.ends_with(".attn.wq.weight") || name.ends_with(".attn.wq_b.weight");
  if (!queries && !name.ends_with(".attn.wkv_a.weight")) return {};
  const i64 head = queries ? query_ : key_;
  const bool whole = info.shape.rank() == 2 && info.shape[0] % head == 0;  // else whoever reads it refuses its shape
  return whole ? Order{head, rotated_} : Order{};
}

void PairedRopeCheckpoint::check_scales() const {
  for (const TensorInfo& info : tensors()) {
    const Order order = order_of(info);
    if (order.head == 0 || info.dtype != DType::e4m3) continue;
    for (i64 first = order.head - order.rotated; first < info.shape[0]; first += order.head)
      CHECK(first / kFp8Block == (first + order.rotated - 1) / kFp8Block,
            "{}: rope_interleave is false, and rows {} to {} of {}, which are rotated together, have scales of several "
            "blocks; cast it with fp8-cast-bf16 first",
            description(), first, first + order.rotated - 1, info.name);
  }
}

void PairedRopeCheckpoint::read(const TensorInfo& info, const Slice& slice, std::span<std::byte> out) const {
  const Order order = order_of(info);
  if (order.head == 0 || out.empty()) return source_.read(info, slice, out);
  const bool by_rows = slice.dim == 0;
  const i64 first = by_rows ? slice.start : 0, count = by_rows ? slice.length : info.shape[0];
  // The rows of the source that this needs: whole rotated parts where the slice begins or ends inside one.
  const auto begin_of_part = [&](i64 row) {
    return row - std::max<i64>(0, row % order.head - (order.head - order.rotated));
  };
  const i64 begin = begin_of_part(first), last = first + count - 1;
  const i64 end = last % order.head < order.head - order.rotated ? last + 1 : (last / order.head + 1) * order.head;
  const i64 row_bytes = static_cast<i64>(out.size()) / count;
  const auto room = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>((end - begin) * row_bytes));
  source_.read(info, by_rows ? Slice{0, begin, end - begin} : slice,
               {room.get(), static_cast<std::size_t>((end - begin) * row_bytes)});
  for (i64 row = 0; row < count; ++row)
    std::memcpy(out.data() + row * row_bytes,
                room.get() + (source_row(first + row, order.head, order.rotated) - begin) * row_bytes,
                static_cast<std::size_t>(row_bytes));
}

const std::byte* PairedRopeCheckpoint::map(const TensorInfo& info) const {
  return order_of(info).head == 0 ? source_.map(info) : nullptr;
}

}  // namespace fathom
