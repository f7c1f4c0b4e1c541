// Many texts looked for at once.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// Finds the longest of many texts at each place, going left to right.
class TextFinder {
 public:
  // The text and the number that find() gives for it; a text that is there already keeps its number.
  void add(std::string_view text, int value);
  struct Match {
    std::size_t begin, end;
    int value;
  };
  // The first match at or after `from`; value -1 when there is none.
  Match find(std::string_view text, std::size_t from) const;
  bool empty() const { return nodes_.empty(); }

 private:
  struct Node {
    int child = -1, sibling = -1, value = -1;
    char byte = 0;
  };
  int child(int node, char byte) const;
  std::vector<Node> nodes_;         // [0] is the root
  std::array<bool, 256> starts_{};  // bytes that begin a text
  std::string single_start_;        // that byte, if there is only one
};

}  // namespace fathom
