#include "tensor/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes_text.h"

namespace fathom {

Storage::Storage(void* data, std::size_t bytes, Device device, Deleter deleter)
    : data_(data), bytes_(bytes), device_(device), deleter_(std::move(deleter)) {}

Storage::Storage(Storage&& other) noexcept { *this = std::move(other); }

Storage& Storage::operator=(Storage&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  std::swap(deleter_, other.deleter_);
  return *this;
}

Storage::~Storage() {
  if (data_ != nullptr) deleter_(data_);
}

namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}  // namespace

Storage host_storage(std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(data != MAP_FAILED, "out of memory: {} of host memory asked for", memory_text(static_cast<i64>(bytes)));
  // Weights are touched for the first time by the copy that loads them: in small pages that takes several times as
  // long.
  if (bytes >= kHugePage) ::madvise(data, bytes, MADV_HUGEPAGE);
  return Storage(data, bytes, Device{}, [bytes](void* p) { ::munmap(p, bytes); });
}

Arena::Arena(Storage storage) : storage_(std::move(storage)) {}

Tensor Arena::empty(const Shape& shape, DType dtype) {
  const auto bytes = static_cast<std::size_t>(shape.numel() * size_of(dtype));
  const std::size_t start = used_;
  used_ = start + (bytes + kAlignment - 1) / kAlignment * kAlignment;
  peak_ = std::max(peak_, used_);
  if (storage_.data() == nullptr)  // measuring: any address but null will do, none is touched
    return Tensor(reinterpret_cast<void*>(start + kAlignment), dtype, shape);
  CHECK(used_ <= storage_.bytes(), "activations need {} bytes, the arena has {}", used_, storage_.bytes());
  return Tensor(static_cast<std::byte*>(storage_.data()) + start, dtype, shape, storage_.device());
}

void Arena::release_to(std::size_t used) {
#ifdef FATHOM_POISON_ARENA
  if (storage_.data() != nullptr && storage_.device() == Device{})  // 0xff is NaN in every float format used here
    std::memset(static_cast<std::byte*>(storage_.data()) + used, 0xff, used_ - used);
#endif
  used_ = used;
}

}  // namespace fathom
