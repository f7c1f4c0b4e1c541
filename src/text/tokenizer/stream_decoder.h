// Ids arriving one by one to text pieces of whole characters, with stop strings found across token edges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/stop_finder.h"

namespace fathom {

class Tokenizer;

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
