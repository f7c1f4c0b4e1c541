#include "checkpoint/stream_hasher.h"

#include <algorithm>
#include <utility>

namespace fathom {

TensorHasher::TensorHasher(const std::vector<TensorInfo>& tensors) : tensors_(tensors) { start(); }

void TensorHasher::start() {
  hash_ = Sha256();
  while (done_.size() < tensors_.size() && (left_ = tensors_[done_.size()].bytes()) == 0)
    done_.push_back(Sha256().hex());
}

template <typename Hash>
void TensorHasher::for_each_part(std::span<const std::byte> bytes, Hash&& hash) {
  while (!bytes.empty()) {
    const auto part = bytes.first(static_cast<std::size_t>(std::min(left_, static_cast<i64>(bytes.size()))));
    hash(part);
    left_ -= static_cast<i64>(part.size());
    bytes = bytes.subspan(part.size());
    if (left_ > 0) continue;
    done_.push_back(hash_.hex());
    start();
  }
}

void TensorHasher::update(std::span<const std::byte> bytes) {
  for_each_part(bytes, [&](std::span<const std::byte> part) { hash_.update(part); });
}

void TensorHasher::update_with(Sha256& whole, std::span<const std::byte> bytes) {
  for_each_part(bytes, [&](std::span<const std::byte> part) { update_both(whole, hash_, part); });
}

std::vector<std::string> TensorHasher::result() && {
  CHECK(done_.size() == tensors_.size(), "{} of {} tensors are hashed", done_.size(), tensors_.size());
  return std::move(done_);
}

}  // namespace fathom
