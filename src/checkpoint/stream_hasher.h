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
  // Of each tensor; all their bytes must have come.
  std::vector<std::string> result() &&;

 private:
  // Goes on with the next tensor that has bytes.
  void start();

  const std::vector<TensorInfo>& tensors_;
  Sha256 hash_;
  i64 left_ = 0;  // bytes of the present tensor still to come
  std::vector<std::string> done_;
};

}  // namespace fathom
