// Stop strings in a text that comes in parts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// Finds the first of several texts to be complete, in a text that comes in parts.
class StopFinder {
 public:
  // Empty stop strings are left out.
  explicit StopFinder(std::vector<std::string> stops);

  // Takes the next part and returns what can be shown: all before a stop string that is complete, and nothing that may
  // be the beginning of one.
  std::string push(std::string_view text);
  // What was held back for a stop string that did not come.
  std::string finish();
  bool found() const { return found_; }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> fallback;  // [n]: longest proper prefix that also ends the first n bytes
    std::size_t matched = 0;            // bytes of it that end what came so far
  };
  std::vector<Stop> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace fathom
