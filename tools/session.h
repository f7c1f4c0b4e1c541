// Session: a model ready to answer. Chooses the parts, loads the weights, holds the engine.
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
#include "text/tokenizer/tokenizer.h"
#include "tools/model_flags.h"
#include "tools/model_source.h"
#include "tools/reply.h"

namespace fathom {

class Session {
 public:
  // Loads the model; `max_batch_size` sequences run at once (0: as the flags or the configuration say).
  Session(const ModelSource& source, const ModelFlags& flags, i64 max_batch_size = 0);

  const ModelArgs& args() const { return runner_->args(); }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  Engine& engine() { return *engine_; }
  i64 max_seq_len() const { return args().max_seq_len; }

  // A request for this prompt as the flags say; the n-th of a run draws other tokens than the first.
  Request request(i64 id, std::vector<TokenId> prompt, const AnswerFlags& flags, i64 n = 0) const;
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
