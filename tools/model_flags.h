// Flags that several commands share: how the model is run and how tokens are drawn.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "session/session.h"
#include "tools/command.h"

namespace fathom {

// How a model is read and run.
struct ModelFlags {
  std::string config;  // path; empty: what the model directory says
  std::string device = "auto";
  int threads = 0;  // 0: one a physical core
  std::string compute = "bf16", gemm = "bf16", attn = "absorb";
  bool no_graphs = false, ignore_unused = false;
  SessionOptions session;  // what other flags set; see options()

  // The session's options with the flags above.
  SessionOptions options() const;
  // The device. Says on stderr what "auto" took and why, where this program has a choice, and which of the flags have
  // no effect on it.
  std::unique_ptr<Backend> backend() const;
};

// Throws Error unless the files hold what the model asks for and nothing else.
void check_weights(const ModelSource& source, const ModelFlags& flags);

// Ranks come with a later version; a launcher's environment must not be taken for a single process silently.
void refuse_ranks();

// Says on stderr which flags do nothing for this model, or ask more of it than it was made for.
void warn_of_idle_flags(const ModelFlags& flags, const ModelArgs& args);

// The model that the user named. Says on stderr what is odd about its configuration.
ModelSource open_named_model(const std::string& model, const std::string& config);

// Says on stderr whether YaRN is on, with its factor, or why not, and which layers are not used: when a model is ready.
void tell_of_model(const ModelArgs& args);

// The model on its device, its weights checked; tells of it; shows on a terminal how far the weights are read.
using LoadProgress = std::function<void(i64 done, i64 total)>;  // bytes of weights
Session load_session(const ModelSource& source, const ModelFlags& flags, const LoadProgress& progress = {});

// --compute --gemm --attn --threads --device --mmap: for every command that runs a model.
void add_compute_flags(Command& command, ModelFlags& flags);
// Those, and how much is held at once.
void add_model_flags(Command& command, ModelFlags& flags);

// What is asked of an answer.
struct AnswerFlags {
  AnswerOptions options{.sampling = {.temperature = 0.2f}};
  std::string system;         // empty: no system message
  std::string chat_template;  // path; empty: the model's own
  bool allow_special_in_content = false;
  bool json = false;
};

// The flags of AnswerFlags but --json and --logprobs.
void add_answer_flags(Command& command, AnswerFlags& flags, const std::string& length_help = "Longest answer");
// --json and --logprobs.
void add_report_flags(Command& command, AnswerFlags& flags);

}  // namespace fathom
