#include "session/session.h"

#include <algorithm>
#include <utility>

#include "session/text_of_model.h"

namespace fathom {
namespace {

ModelArgs with_options(ModelArgs args, const SessionOptions& options) {
  if (options.max_seq_len > 0) args.max_seq_len = options.max_seq_len;
  if (options.max_batch_size > 0) args.max_batch_size = options.max_batch_size;
  return args;
}

i64 stored_bytes(const Checkpoint& checkpoint) {
  i64 bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) bytes += tensor.bytes();
  return bytes;
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

Session::Session(const ModelSource& source, std::unique_ptr<Backend> backend, const SessionOptions& options,
                 const std::function<void(i64, i64)>& progress)
    : tokenizer_(load_tokenizer(source)),
      stop_ids_(fathom::stop_ids(source.args, tokenizer_)),
      backend_(std::move(backend)) {
  const ModelArgs args = with_options(source.args, options);
  const i64 chunk = std::min(options.chunk > 0 ? options.chunk : backend_->prompt_chunk(), args.max_seq_len);
  const auto hear = [&, total = stored_bytes(*source.checkpoint)](i64 bytes) {
    if (progress) progress(bytes, total);
  };
  RunnerOptions room{
      .limits = {.max_tokens = std::max(chunk, args.max_batch_size), .max_sequences = args.max_batch_size},
      .map = options.map,
      .record = options.record,
      .compute = options.compute};
  room.limits.blocks = room.limits.blocks_of(options.cache_tokens);
  runner_ = std::make_unique<Runner>(*backend_, comm_, *source.checkpoint, args, room, hear);
  engine_ = std::make_unique<Engine>(
      *runner_, SchedulerOptions{.limits = runner_->limits(), .chunk = chunk, .vocab_size = args.vocab_size});
}

Request Session::request(i64 id, std::vector<TokenId> prompt, const AnswerOptions& options, i64 n) const {
  Request request{.id = id,
                  .prompt = std::move(prompt),
                  .sampling = options.sampling,
                  .max_new_tokens = options.max_new_tokens,
                  .stop_ids = options.stop_ids,
                  .n_logprobs = options.n_logprobs};
  if (!options.ignore_eos) request.stop_ids.insert(request.stop_ids.end(), stop_ids_.begin(), stop_ids_.end());
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
