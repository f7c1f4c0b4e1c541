#include "text/tokenizer/text_finder.h"

#include <algorithm>

namespace fathom {

int TextFinder::child(int node, char byte) const {
  int next = nodes_[static_cast<std::size_t>(node)].child;
  while (next >= 0 && nodes_[static_cast<std::size_t>(next)].byte != byte)
    next = nodes_[static_cast<std::size_t>(next)].sibling;
  return next;
}

void TextFinder::add(std::string_view text, int value) {
  if (nodes_.empty()) nodes_.emplace_back();
  int node = 0;
  for (const char byte : text) {
    int next = child(node, byte);
    if (next < 0) {
      next = static_cast<int>(nodes_.size());
      nodes_.push_back({-1, nodes_[static_cast<std::size_t>(node)].child, -1, byte});
      nodes_[static_cast<std::size_t>(node)].child = next;
    }
    node = next;
  }
  if (nodes_[static_cast<std::size_t>(node)].value < 0) nodes_[static_cast<std::size_t>(node)].value = value;
  starts_[static_cast<unsigned char>(text[0])] = true;
  single_start_ = std::count(starts_.begin(), starts_.end(), true) == 1 ? std::string(1, text[0]) : std::string();
}

TextFinder::Match TextFinder::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!single_start_.empty()) {
      begin = text.find(single_start_[0], begin);
      if (begin == std::string_view::npos) break;
    } else if (!starts_[static_cast<unsigned char>(text[begin])]) {
      continue;
    }
    Match match{begin, begin, -1};
    int node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      node = child(node, text[at]);
      if (node < 0) break;
      const int value = nodes_[static_cast<std::size_t>(node)].value;
      if (value >= 0) match.end = at + 1, match.value = value;
    }
    if (match.value >= 0) return match;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace fathom
