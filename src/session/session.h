// Session: a model ready to answer. Loads the weights, holds the engine.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/engine.h"
#include "engine/runner.h"
#include "model/source.h"
#include "session/options.h"
#include "session/reply.h"
#include "text/tokenizer/tokenizer.h"

namespace fathom {

class Session {
 public:
  // Loads the model onto the device; `progress` hears the bytes of weights that are there, and those of all.
  Session(const ModelSource& source, std::unique_ptr<Backend> backend, const SessionOptions& options,
          const std::function<void(i64 done, i64 total)>& progress = {});

  const ModelArgs& args() const { return runner_->args(); }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  Engine& engine() { return *engine_; }
  i64 max_seq_len() const { return args().max_seq_len; }

  // A request for this prompt as the options say; the n-th of a run draws other tokens than the first.
  Request request(i64 id, std::vector<TokenId> prompt, const AnswerOptions& options, i64 n = 0) const;
  // A few tokens after the text "DeepSeek", thrown away: the first passes of a model are slower than the others.
  void warm_up();

  // Called with the text of request `id` that can be shown now.
  using Listener = std::function<void(i64 id, const std::string& text)>;
  // Runs all that was submitted to its end. `interrupted`, when given, is asked before each pass and breaks all off.
  void run(std::map<i64, Reply>& replies, const Listener& listener = {}, const std::function<bool()>& interrupted = {});

 private:
  Tokenizer tokenizer_;
  std::vector<TokenId> stop_ids_;
  std::unique_ptr<Backend> backend_;
  SingleCommunicator comm_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Engine> engine_;
};

// The end-of-sequence ids of configuration, generation configuration and tokenizer together.
std::vector<TokenId> stop_ids(const ModelArgs& args, const Tokenizer& tokenizer);

}  // namespace fathom
