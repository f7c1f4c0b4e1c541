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

void TensorHasher::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto part = bytes.first(static_cast<std::size_t>(std::min(left_, static_cast<i64>(bytes.size()))));
    hash_.update(part);
    left_ -= static_cast<i64>(part.size());
    bytes = bytes.subspan(part.size());
    if (left_ > 0) continue;
    done_.push_back(hash_.hex());
    start();
  }
}

std::vector<std::string> TensorHasher::result() && {
  CHECK(done_.size() == tensors_.size(), "{} of {} tensors are hashed", done_.size(), tensors_.size());
  return std::move(done_);
}

}  // namespace fathom
