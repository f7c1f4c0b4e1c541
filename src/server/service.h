// Service: a model that answers many requests at once: its text, its engine's thread, and the threads that prepare
// prompts.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "base/work_queue.h"
#include "engine/engine_thread.h"
#include "session/prompt.h"
#include "session/session.h"

namespace fathom {

struct ServiceOptions {
  std::vector<std::string> names;  // under which the model is served; the first is told
  i64 max_queue = 1024;            // requests that wait for the engine
  int preparation_threads = 1;     // for templates and tokens
  float default_temperature = 1.0f;
};

class Service {
 public:
  // Loads nothing; the session outlives the service.
  Service(Session& session, PromptBuilder prompts, ServiceOptions options)
      : session_(session),
        prompts_(std::move(prompts)),
        options_(std::move(options)),
        created_(std::time(nullptr)),
        preparation_(options_.preparation_threads, kWaitingBodies),
        engine_(session.engine(), options_.max_queue) {}

  Session& session() { return session_; }
  const Tokenizer& tokenizer() const { return session_.tokenizer(); }
  i64 max_seq_len() const { return session_.max_seq_len(); }
  i64 vocab_size() const { return session_.args().vocab_size; }
  const PromptBuilder& prompts() const { return prompts_; }
  const ServiceOptions& options() const { return options_; }
  const std::string& name() const { return options_.names.front(); }
  std::time_t created() const { return created_; }
  WorkQueue& preparation() { return preparation_; }
  EngineThread& engine() { return engine_; }

 private:
  static constexpr std::size_t kWaitingBodies = 4096;  // requests whose prompts wait to be prepared

  Session& session_;
  PromptBuilder prompts_;
  ServiceOptions options_;
  std::time_t created_;
  WorkQueue preparation_;
  EngineThread engine_;
};

}  // namespace fathom
