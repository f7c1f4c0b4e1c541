#include "text/tokenizer/stream_decoder.h"

#include <utility>

#include "text/tokenizer/tokenizer.h"
#include "text/unicode/utf8.h"

namespace fathom {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special, std::vector<std::string> stop)
    : tokenizer_(tokenizer),
      skip_special_(skip_special),
      stream_(tokenizer.decoder_stream()),
      stops_(std::move(stop)) {}

std::string StreamDecoder::push(TokenId id) {
  const auto token = stopped() ? std::nullopt : tokenizer_.decoder_token(id, skip_special_);
  if (!token) return {};
  std::string text;
  stream_.push(*token, text);
  return stops_.push(text);
}

std::string StreamDecoder::finish() {
  std::string text;
  stream_.finish(text);
  std::string shown = stops_.push(text);
  return shown + stops_.finish();
}

}  // namespace fathom
