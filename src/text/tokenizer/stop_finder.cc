#include "text/tokenizer/stop_finder.h"

#include <algorithm>
#include <utility>

#include "text/unicode/utf8.h"

namespace fathom {

StopFinder::StopFinder(std::vector<std::string> stops) {
  for (std::string& given : stops) {
    Stop stop{is_valid_utf8(given) ? std::move(given) : to_valid_utf8(given), {}};
    if (stop.text.empty()) continue;
    stop.fallback.assign(stop.text.size() + 1, 0);
    for (std::size_t i = 1, n = 0; i < stop.text.size(); ++i) {
      while (n > 0 && stop.text[i] != stop.text[n]) n = stop.fallback[n];
      if (stop.text[i] == stop.text[n]) ++n;
      stop.fallback[i + 1] = n;
    }
    stops_.push_back(std::move(stop));
  }
}

std::string StopFinder::push(std::string_view text) {
  if (found_) return {};
  for (const char byte : text) {
    held_ += byte;
    std::size_t longest = 0;
    for (Stop& stop : stops_) {
      std::size_t& n = stop.matched;
      while (n > 0 && stop.text[n] != byte) n = stop.fallback[n];
      if (stop.text[n] == byte) ++n;
      if (n == stop.text.size()) longest = std::max(longest, n), n = stop.fallback[n];
    }
    if (longest == 0) continue;
    found_ = true;
    held_.resize(held_.size() - longest);
    return std::move(held_);
  }
  std::size_t keep = 0;
  for (const Stop& stop : stops_) keep = std::max(keep, stop.matched);
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopFinder::finish() {
  if (found_) return {};
  for (Stop& stop : stops_) stop.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace fathom
