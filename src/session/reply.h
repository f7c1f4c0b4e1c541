// Reply: one answer as it arrives, token ids becoming text.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/request.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace fathom {

class Reply {
 public:
  // Ends by itself where one of the texts `stop` appears; that text is not part of the answer.
  Reply(const Tokenizer& tokenizer, const std::vector<std::string>& stop);

  // Takes an event of the request and returns the text that can be shown now: whole characters, nothing that may still
  // turn out to be the start of a stop text.
  std::string take(const Event& event);
  // Ends an answer that the caller broke off; returns the text held back.
  std::string break_off();

  bool done() const { return !finish_.empty(); }
  const std::string& text() const { return text_; }
  const std::string& finish() const { return finish_; }  // "stop", "length", "error" or "interrupted"
  const std::string& error() const { return error_; }
  const Usage& usage() const { return usage_; }
  double seconds_to_first() const { return first_ - start_; }
  double seconds() const { return last_ - start_; }

  // Text, finish reason, ids, usage and, where asked for, log-probabilities.
  nlohmann::ordered_json to_json() const;
  nlohmann::ordered_json logprobs_to_json() const;

 private:
  std::string end(const std::string& reason);
  nlohmann::ordered_json describe(const TokenLogprob& one) const;

  const Tokenizer& tokenizer_;
  StreamDecoder decoder_;
  std::vector<TokenId> ids_;
  std::vector<TokenLogprob> logprobs_;                   // of ids_
  std::vector<std::vector<TokenLogprob>> top_logprobs_;  // of ids_
  std::string text_, finish_, error_;
  Usage usage_;
  double start_, first_ = 0, last_ = 0;  // seconds of the steady clock
};

}  // namespace fathom
