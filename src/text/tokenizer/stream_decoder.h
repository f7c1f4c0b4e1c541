// Ids arriving one by one to text pieces of whole characters, with stop strings found across token edges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "text/tokenizer/decoder.h"

namespace fathom {

class Tokenizer;

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

// The pieces that push() and finish() return join to Tokenizer::decode of the same ids, cut before the stop string.
class StreamDecoder {
 public:
  // The tokenizer must outlive it.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true, std::vector<std::string> stop = {});

  // New text that can be shown now; may be empty, never ends within a character. Empty once stopped.
  std::string push(TokenId id);
  // What was held back.
  std::string finish();
  // A stop string was found.
  bool stopped() const { return stops_.found(); }

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  DecoderStream stream_;
  StopFinder stops_;
};

}  // namespace fathom
