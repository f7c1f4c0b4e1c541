#include "model/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/stage.h"
#include "base/thread_pool.h"
#include "quant/e4m3_table.h"

namespace fathom {
namespace {

constexpr i64 kPieceBytes = i64{4} << 20;
constexpr i64 kRowMultiple = 128;           // scales of synthetic matrices are made block by block
constexpr i64 kAhead = 16;                  // pieces that the system is told of before they are read
constexpr i64 kBatchBytes = i64{64} << 20;  // on the way to another device; two are in memory
constexpr int kLeastThreads = 4;            // a disk gives its speed only to several readers

// Consecutive rows of a job, or all of one that is cut elsewhere.
struct Piece {
  const TensorInfo* stored;
  Slice slice;
  std::byte* to;
  i64 bytes;
  bool mapped;
};

void cut(const LoadJob& job, std::vector<Piece>& pieces) {
  auto* to = static_cast<std::byte*>(job.to.data());
  const Shape& shape = job.to.shape();
  if (job.slice.dim > 0 || job.stored->shape.rank() == 0 || shape.numel() == 0) {
    pieces.push_back({job.stored, job.slice, to, job.to.bytes(), job.mapped});
    return;
  }
  const i64 rows = job.slice.dim == 0 ? job.slice.length : job.stored->shape[0];
  const i64 first = job.slice.dim == 0 ? job.slice.start : 0, row_bytes = job.to.bytes() / rows;
  const i64 fitting = std::max<i64>(1, kPieceBytes / row_bytes);
  const i64 step = (fitting + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  for (i64 row = 0; row < rows; row += step) {
    const i64 count = std::min(step, rows - row);
    pieces.push_back({job.stored, {0, first + row, count}, to + row * row_bytes, count * row_bytes, job.mapped});
  }
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Backend& backend, std::vector<Piece> pieces,
         const std::function<void(i64)>& progress)
      : checkpoint_(checkpoint),
        backend_(backend),
        pieces_(std::move(pieces)),
        progress_(progress),
        pool_(std::max(kLeastThreads, physical_cores())) {}

  // Places in the host's memory: each thread reads straight into them.
  void to_host() {
    std::atomic<i64> done = 0;
    i64 told = 0;
    const auto place = [](const Piece& one) { return one.to; };
    read(0, count(), place, [&](const Piece& one, int worker) {
      const i64 now = done += one.bytes;
      if (worker != 0) return;  // this thread
      tell(now - told);
      told = now;
    });
    tell(done - told);
  }

  // One batch is read while the one before it is uploaded.
  void to_device() {
    std::vector<i64> ends;  // of batches, as pieces
    i64 largest = 0;
    for (i64 begin = 0; begin < count(); begin = ends.back()) {
      i64 end = begin + 1, bytes = piece(begin).bytes;
      while (end < count() && bytes + piece(end).bytes <= kBatchBytes) bytes += piece(end++).bytes;
      ends.push_back(end);
      largest = std::max(largest, bytes);
    }
    std::unique_ptr<std::byte[]> slots[2];
    for (auto& slot : slots) slot = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(largest));
    const auto begin_of = [&](i64 batch) { return batch == 0 ? 0 : ends[static_cast<std::size_t>(batch - 1)]; };
    Stage reader([&](i64 batch) { read_batch(begin_of(batch), begin_of(batch + 1), slots[batch % 2].get()); });
    reader.give();
    for (i64 batch = 0; batch < static_cast<i64>(ends.size()); ++batch) {
      reader.wait_for(batch);
      if (batch + 1 < static_cast<i64>(ends.size())) reader.give();
      const std::byte* from = slots[batch % 2].get();
      i64 bytes = 0;
      for (i64 i = begin_of(batch); i < begin_of(batch + 1); ++i) {
        backend_.upload(Tensor(piece(i).to, DType::u8, {piece(i).bytes}, backend_.device()), from + bytes);
        bytes += piece(i).bytes;
      }
      tell(bytes);
    }
  }

 private:
  i64 count() const { return static_cast<i64>(pieces_.size()); }
  const Piece& piece(i64 i) const { return pieces_[static_cast<std::size_t>(i)]; }

  void tell(i64 bytes) {
    if (progress_) progress_(bytes);
  }

  void read_batch(i64 begin, i64 end, std::byte* slot) {
    std::vector<i64> offsets{0};
    for (i64 i = begin; i < end; ++i) offsets.push_back(offsets.back() + piece(i).bytes);
    const Piece* first = &piece(begin);
    read(
        begin, end, [&](const Piece& p) { return slot + offsets[static_cast<std::size_t>(&p - first)]; },
        [](const Piece&, int) {});
  }

  void bring(const Piece& p) const {
    try {
      populate({p.to, static_cast<std::size_t>(p.bytes)});
    } catch (const Error& error) {
      fail("{}: tensor {}: {}", checkpoint_.description(), checkpoint_.stored_name(p.stored->name), error.what());
    }
  }

  // Reads pieces [begin, end) to where `place` says; `after` hears of each.
  template <typename Place, typename After>
  void read(i64 begin, i64 end, Place&& place, After&& after) {
    pool_.parallel_for(end - begin, 1, [&](i64 from, i64 to, int worker) {
      for (i64 i = begin + from; i < begin + to; ++i) {
        if (i + kAhead < count()) checkpoint_.prefetch(*piece(i + kAhead).stored, piece(i + kAhead).slice);
        const Piece& p = piece(i);
        const std::span bytes(place(p), static_cast<std::size_t>(p.bytes));
        p.mapped ? bring(p) : checkpoint_.read(*p.stored, p.slice, bytes);
        check_codes(checkpoint_, *p.stored, p.mapped ? std::span<const std::byte>(p.to, bytes.size()) : bytes);
        after(p, worker);
      }
    });
  }

  const Checkpoint& checkpoint_;
  Backend& backend_;
  std::vector<Piece> pieces_;
  const std::function<void(i64)>& progress_;
  ThreadPool pool_;
};

}  // namespace

void check_codes(const Checkpoint& checkpoint, const TensorInfo& stored, std::span<const std::byte> bytes) {
  if (stored.dtype != DType::e4m3) return;
  const i64 at = first_nan(reinterpret_cast<const e4m3_bits*>(bytes.data()), static_cast<i64>(bytes.size()));
  if (at < 0) return;
  fail("{}: tensor {} holds NaN (FP8 code 0x{:02x}); its file is damaged, fathom verify --numbers says where",
       checkpoint.description(), checkpoint.stored_name(stored.name),
       std::to_integer<int>(bytes[static_cast<std::size_t>(at)]));
}

void load_weights(const Checkpoint& checkpoint, Backend& backend, std::vector<LoadJob> jobs,
                  const std::function<void(i64 bytes)>& progress) {
  if (jobs.empty()) return;
  // A checkpoint lists its tensors as they lie in its files.
  std::stable_sort(jobs.begin(), jobs.end(), [](const LoadJob& a, const LoadJob& b) {
    return std::less<>()(a.stored, b.stored) || (a.stored == b.stored && a.slice.start < b.slice.start);
  });
  std::vector<Piece> pieces;
  for (const LoadJob& job : jobs) cut(job, pieces);
  Loader loader(checkpoint, backend, std::move(pieces), progress);
  if (backend.device().type == DeviceType::cpu)
    loader.to_host();
  else
    loader.to_device();
}

}  // namespace fathom
