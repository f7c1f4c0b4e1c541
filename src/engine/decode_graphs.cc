#include "engine/decode_graphs.h"

#include <algorithm>
#include <bit>

namespace fathom {
namespace {

constexpr std::size_t kMost = 256;  // recordings, of about a mebibyte each

}  // namespace

i64 DecodeGraphs::rounded_context(i64 context) {
  constexpr i64 kLeast = 1024;
  return std::max(kLeast, static_cast<i64>(std::bit_ceil(static_cast<std::uint64_t>(context))));
}

void DecodeGraphs::run(i64 batch, i64 context, const std::function<void()>& pass) {
  if (recorded_.size() >= kMost && !recorded_.contains({batch, context}))
    recorded_.erase(std::ranges::min_element(recorded_, {}, [](const auto& one) { return one.second.used; }));
  const auto [place, first] = recorded_.try_emplace({batch, context});
  Recording& recording = place->second;
  recording.used = ++runs_;
  if (first || !can_record_) return pass();
  if (recording.graph == nullptr) {
    recording.graph = backend_.capture(pass);
    can_record_ = recording.graph != nullptr;
    if (!can_record_) return pass();
  }
  recording.graph->replay();
}

i64 DecodeGraphs::recordings() const {
  return std::count_if(recorded_.begin(), recorded_.end(), [](const auto& one) { return one.second.graph != nullptr; });
}

i64 DecodeGraphs::operations(i64 batch, i64 context) const {
  const auto place = recorded_.find({batch, context});
  return place == recorded_.end() || place->second.graph == nullptr ? 0 : place->second.graph->operations();
}

}  // namespace fathom
