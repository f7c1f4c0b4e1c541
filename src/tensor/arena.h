// Owners of memory: Storage (one block, any device) and Arena (a bump allocator for activations, with scopes).
#pragma once

#include <cstddef>
#include <functional>

#include "tensor/tensor.h"

namespace fathom {

// Move-only owner of bytes on one device; carries its own deleter, so it needs to know no backend.
class Storage {
 public:
  using Deleter = std::function<void(void*)>;

  Storage() = default;
  Storage(void* data, std::size_t bytes, Device device, Deleter deleter);
  Storage(Storage&& other) noexcept;
  Storage& operator=(Storage&& other) noexcept;
  ~Storage();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
  Deleter deleter_;
};

// Zeroed host memory, 64-byte aligned, committed by the system when touched.
Storage host_storage(std::size_t bytes);

// Bump allocator over one Storage. The same sequence of calls gives the same addresses, so a pass can be captured.
// A default-made arena only measures: it hands out addresses that must not be touched and knows its peak.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  Arena() = default;
  explicit Arena(Storage storage);

  // An uninitialised contiguous tensor; throws Error when the arena is full.
  Tensor empty(const Shape& shape, DType dtype);

  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }

 private:
  friend class ArenaScope;
  void release_to(std::size_t used);

  Storage storage_;
  std::size_t used_ = 0, peak_ = 0;
};

// Gives back, at its end, all that was taken from the arena since its start.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;
  ~ArenaScope() { arena_.release_to(mark_); }

 private:
  Arena& arena_;
  std::size_t mark_;
};

}  // namespace fathom
