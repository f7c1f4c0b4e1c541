#include "tools/session.h"

#include <algorithm>
#include <utility>

#include "tools/progress.h"
#include "tools/prompt.h"

namespace fathom {
namespace {

constexpr i64 kChunk = 512;      // prompt tokens of a pass
constexpr i64 kGpuChunk = 4096;  // there each pass reads all weights for little work

// Shows on a terminal how far the weights are read; nothing for models that load at once.
class LoadProgress {
 public:
  explicit LoadProgress(const Checkpoint& checkpoint) {
    for (const TensorInfo& tensor : checkpoint.tensors()) total_ += tensor.bytes();
  }
  void operator()(i64 bytes) {
    if (total_ > i64{1} << 28) line_.show(bytes, total_);
  }

 private:
  ProgressLine line_;
  i64 total_ = 0;
};

ModelArgs with_flags(ModelArgs args, const ModelFlags& flags, i64 max_batch_size) {
  if (flags.max_seq_len > 0) args.max_seq_len = flags.max_seq_len;
  if (max_batch_size == 0) max_batch_size = flags.max_batch_size;
  if (max_batch_size > 0) args.max_batch_size = max_batch_size;
  return args;
}

}  // namespace

std::vector<TokenId> stop_ids(const ModelArgs& args, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (const i64 id : args.eos_token_ids) ids.push_back(static_cast<TokenId>(id));
  if (const auto id = tokenizer.eos_id()) ids.push_back(*id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Session::Session(const ModelSource& source, const ModelFlags& flags, i64 max_batch_size)
    : tokenizer_(load_tokenizer(source)),
      stop_ids_(fathom::stop_ids(source.args, tokenizer_)),
      backend_(flags.backend()) {
  const ModelArgs args = with_flags(source.args, flags, max_batch_size);
  const bool gpu = backend_->device().type == DeviceType::cuda;
  const i64 chunk = std::min(flags.chunk > 0 ? flags.chunk : gpu ? kGpuChunk : kChunk, args.max_seq_len);
  LoadProgress progress(*source.checkpoint);
  RunnerOptions options{
      .limits = {.max_tokens = std::max(chunk, args.max_batch_size), .max_sequences = args.max_batch_size},
      .map = flags.mmap,
      .record = !flags.no_graphs,
      .compute = flags.options()};
  options.limits.blocks = options.limits.blocks_of(flags.cache_tokens);
  runner_ = std::make_unique<Runner>(*backend_, comm_, *source.checkpoint, args, options, std::ref(progress));
  engine_ = std::make_unique<Engine>(
      *runner_, SchedulerOptions{.limits = runner_->limits(), .chunk = chunk, .vocab_size = args.vocab_size});
}

Request Session::request(i64 id, std::vector<TokenId> prompt, const AnswerFlags& flags, i64 n) const {
  Request request{.id = id,
                  .prompt = std::move(prompt),
                  .sampling = flags.sampling,
                  .max_new_tokens = flags.max_new_tokens,
                  .stop_ids = stop_ids_,
                  .n_logprobs = flags.n_logprobs};
  request.sampling.seed += n;
  return request;
}

void Session::warm_up() {
  const bool recorded =
      engine_->scheduler().options().limits.max_steps > 1;  // by the second step, replayed by the third
  engine_->submit({.id = -1, .prompt = tokenizer_.encode_with_bos("DeepSeek"), .max_new_tokens = recorded ? 4 : 2});
  while (!engine_->idle()) engine_->step();
}

void Session::run(std::map<i64, Reply>& replies, const Listener& listener, const std::function<bool()>& interrupted) {
  const auto show = [&](i64 id, const std::string& text) {
    if (listener && !text.empty()) listener(id, text);
  };
  while (!engine_->idle()) {
    if (interrupted && interrupted()) {
      for (auto& [id, reply] : replies) {
        engine_->cancel(id);
        show(id, reply.break_off());
      }
      return;
    }
    for (const Event& event : engine_->step()) {
      Reply& reply = replies.at(event.request);
      if (reply.done()) continue;  // tokens drawn together with the one that completed a stop text
      show(event.request, reply.take(event));
      if (reply.done() && event.finish == FinishReason::none) engine_->cancel(event.request);  // a stop text
    }
  }
}

}  // namespace fathom
