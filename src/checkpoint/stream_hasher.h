// The hashes of a safetensors file and of its tensors, of bytes that come piece by piece.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "checkpoint/checkpoint.h"

namespace fathom {

// SHA-256 of tensors whose bytes follow each other.
class TensorHasher {
 public:
  explicit TensorHasher(const std::vector<TensorInfo>& tensors);  // which must outlive this
  void update(std::span<const std::byte> bytes);
  // The same, and whole.update(bytes), in step.
  void update_with(Sha256& whole, std::span<const std::byte> bytes);
  // Of each tensor; all their bytes must have come.
  std::vector<std::string> result() &&;

 private:
  // Cuts the bytes at the ends of tensors; `hash` takes the parts.
  template <typename Hash>
  void for_each_part(std::span<const std::byte> bytes, Hash&& hash);
  // Goes on with the next tensor that has bytes.
  void start();

  const std::vector<TensorInfo>& tensors_;
  Sha256 hash_;
  i64 left_ = 0;  // bytes of the present tensor still to come
  std::vector<std::string> done_;
};

}  // namespace fathom
