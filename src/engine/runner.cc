#include "engine/runner.h"

#include <algorithm>
#include <utility>

#include "engine/logprobs.h"
#include "engine/memory.h"
#include "ops/sampling.h"

namespace fathom {
namespace {

// The options with all limits set but the number of blocks, which depends on what is free once the weights are there.
// Throws when the device's memory is known to be too small.
RunnerOptions resolved(RunnerOptions options, const ModelArgs& args, Backend& backend, const WeightStore& store) {
  Limits& limits = options.limits;
  if (limits.max_seq_len == 0) limits.max_seq_len = args.max_seq_len;
  if (limits.max_rows == 0) limits.max_rows = limits.max_sequences;
  CHECK(limits.max_seq_len <= args.max_seq_len, "sequences of {} tokens, but the model is made for {}",
        limits.max_seq_len, args.max_seq_len);
  CHECK(limits.max_tokens > 0 && limits.max_sequences > 0 && limits.blocks >= 0 && limits.block_size > 0 &&
            limits.max_steps > 0,
        "a runner needs room: {} tokens, {} sequences, {} blocks of {}, {} steps", limits.max_tokens,
        limits.max_sequences, limits.blocks, limits.block_size, limits.max_steps);
  const auto memory = backend.memory();
  if (!memory) return options;
  MemoryNeed need = measure_memory(args, options, store);
  if (memory->host && options.map) need.weights = 0;
  const i64 blocks = fitting_blocks(need, limits, memory);
  if (memory->host) limits.blocks = blocks;
  return options;
}

// The blocks that fit beside what is there by now. The host's memory is shared out before, as it is taken later.
i64 blocks_beside(const Backend& backend, const ModelArgs& args, const RunnerOptions& options) {
  MemoryNeed only_cache;
  only_cache.block = LatentCache::block_bytes(args, args.n_layers, options.limits.block_size, options.compute.compute);
  const auto memory = backend.memory();
  return fitting_blocks(only_cache, options.limits, memory && !memory->host ? memory : std::nullopt);
}

}  // namespace

Runner::Runner(Backend& backend, Communicator& comm, const Checkpoint& checkpoint, const ModelArgs& args,
               const RunnerOptions& options, const WeightStore::Progress& progress)
    : Runner(backend, comm, WeightStore(checkpoint, backend, comm.rank(), comm.size(), options.map, progress), args,
             options) {}

Runner::Runner(Backend& backend, Communicator& comm, WeightStore store, const ModelArgs& args,
               const RunnerOptions& options)
    : backend_(backend),
      comm_(comm),
      args_(args),
      options_(resolved(options, args_, backend, store)),
      store_(std::move(store)),
      model_(Params(store_, args_, options_.compute)),
      buffer_arena_(backend.allocate(static_cast<std::size_t>(PassBuffers::bytes(args_, options_.limits)))),
      buffers_(buffer_arena_, args_, options_.limits),
      arena_bytes_(measure_scratch(model_, args_, options_, store_)),
      arena_(backend.allocate(static_cast<std::size_t>(arena_bytes_))),
      cache_(backend, args_, args_.n_layers, blocks_beside(backend, args_, options_), options_.limits.block_size,
             options_.compute.compute),
      graphs_(backend) {}

i64 Runner::expand_from() const { return options_.compute.attn == AttnImpl::naive ? 0 : backend_.expand_from(); }

// The naive form sizes its buffers by the exact contexts, which the host must know; and where nothing is to be recorded
// each pass is to be seen by itself.
bool Runner::plans_ahead() const {
  return backend_.draws_ahead() && options_.record && options_.compute.attn == AttnImpl::absorb;
}

Limits Runner::limits() const {
  Limits limits = options_.limits;
  limits.blocks = cache_.blocks();
  if (!plans_ahead()) limits.max_steps = 1;
  return limits;
}

// Whether a pass of the plan can make itself the next one: all sequences decode, the host need not see one token before
// the next (no numbers are reported, no set of seen tokens grows), and no buffer is sized by the exact contexts.
bool Runner::steps_alone(const StepPlan& plan) const {
  return plan.decodes() && plan.seen.empty() && options_.compute.attn == AttnImpl::absorb &&
         std::all_of(plan.n_logprobs.begin(), plan.n_logprobs.end(), [](std::int32_t n) { return n < 0; });
}

void Runner::check(const StepPlan& plan) const {
  const Limits& limits = options_.limits;
  CHECK(plan.tokens() > 0 && plan.tokens() <= limits.max_tokens, "a pass of {} tokens; the limit is {}", plan.tokens(),
        limits.max_tokens);
  CHECK(plan.sequences() > 0 && plan.sequences() <= limits.max_sequences, "a pass of {} sequences; the limit is {}",
        plan.sequences(), limits.max_sequences);
  CHECK(plan.steps == 1 || (plan.steps > 1 && plan.steps <= limits.max_steps && steps_alone(plan)),
        "{} passes in one plan; the limit is {}, and 1 where tokens are not drawn on the device alone", plan.steps,
        limits.max_steps);
  CHECK(plan.rows() <= limits.max_rows, "logits of {} tokens; the limit is {}", plan.rows(), limits.max_rows);
  for (const TokenId id : plan.ids)
    CHECK(id >= 0 && id < args_.vocab_size, "token id {} is outside the vocabulary of {}", id, args_.vocab_size);
  for (const std::int32_t length : plan.context_lens)
    CHECK(length + plan.steps - 1 <= limits.max_seq_len, "a sequence of {} tokens; the limit is {}",
          length + plan.steps - 1, limits.max_seq_len);
  for (i64 s = 0; s < plan.sequences(); ++s) {
    const auto at = static_cast<std::size_t>(s);
    for (auto t = static_cast<std::size_t>(plan.seq_starts[at]); t < static_cast<std::size_t>(plan.seq_starts[at + 1]);
         ++t)
      CHECK(plan.positions[t] >= 0 && plan.positions[t] < plan.context_lens[at],
            "position {} in a sequence of {} tokens", plan.positions[t], plan.context_lens[at]);
  }
  for (const std::int32_t block : plan.blocks)
    CHECK(block >= 0 && block < cache_.blocks(), "block {} of a cache of {}", block, cache_.blocks());
}

Runner::Pass Runner::prepare(const StepPlan& plan) {
  check(plan);
  auto [batch, sampling] = buffers_.upload(backend_, plan, expand_from());
  steps_left_ = plan.steps;
  if (!steps_alone(plan)) return {batch, sampling, {}};
  Sequences& sequences = batch.runs.front();
  sequences.max_context =
      std::min(DecodeGraphs::rounded_context(sequences.max_context + plan.steps - 1), args_.max_seq_len);
  sequences.total_context = batch.tokens() * sequences.max_context;
  return {batch, sampling, buffers_.log(batch.tokens())};
}

void Runner::enqueue(const Pass& pass) {
  CHECK(!pass.log.defined() || steps_left_-- > 0, "a pass is enqueued more often than its plan has steps");
  const auto call = [this, pass] {
    const ArenaScope scope(arena_);
    Context ctx = context();
    const Tensor drawn = ops::sample(ctx, model_(ctx, pass.batch, cache_), pass.sampling);
    if (!pass.log.defined()) return;
    CHECK(ops::advance(ctx, pass.batch, drawn, pass.sampling, pass.log, options_.limits.block_size),
          "{} cannot advance a batch", backend_.name());
  };
  pass.log.defined() && options_.record ? graphs_.run(pass.batch.tokens(), pass.batch.runs.front().max_context, call)
                                        : call();
}

// The passes of a plan that steps alone are all enqueued before the first token is looked at.
StepResult Runner::run(const StepPlan& plan) {
  const Pass pass = prepare(plan);
  if (!pass.log.defined()) return run_once(plan, pass);
  for (i64 i = 0; i < plan.steps; ++i) enqueue(pass);
  std::vector<std::int32_t> ids(static_cast<std::size_t>((1 + plan.steps) * plan.tokens()));
  backend_.download(ids.data(), pass.log.narrow(0, 0, 1 + plan.steps));
  StepResult result;
  for (auto id = ids.begin() + plan.tokens(); id != ids.end(); ++id)
    result.rows.push_back({.token = *id, .finite = *id >= 0});
  return result;
}

// Logits of the rows that the batch wants; undefined when it wants none.
Tensor Runner::compute(Context& ctx, const Batch& batch, const HiddenHook& hidden) {
  if (batch.logit_rows.dim(0) > 0) return model_(ctx, batch, cache_, hidden);
  model_.forward(ctx, batch, cache_, hidden);
  return {};
}

// Any plan of one pass.
StepResult Runner::run_once(const StepPlan& plan, const Pass& pass) {
  const ArenaScope scope(arena_);
  Context ctx = context();
  const Tensor logits = compute(ctx, pass.batch);
  if (!logits.defined()) return {};
  const Tensor drawn = ops::sample(ctx, logits, pass.sampling);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(plan.rows()));
  backend_.download(ids.data(), drawn);
  StepResult result;
  std::vector<float> numbers(static_cast<std::size_t>(args_.vocab_size));
  for (std::size_t row = 0; row < ids.size(); ++row) {
    Drawn one{.token = ids[row], .finite = ids[row] >= 0};
    if (one.finite && plan.n_logprobs[row] >= 0) {
      backend_.download(numbers.data(), logits[static_cast<i64>(row)]);
      one.logprob = logprob_of(numbers, one.token);
      one.top_logprobs = top_logprobs(numbers, plan.n_logprobs[row]);
    }
    result.rows.push_back(std::move(one));
  }
  return result;
}

Runner::Outputs Runner::forward(const StepPlan& plan, bool hidden) {
  check(plan);
  const Batch batch = buffers_.upload(backend_, plan, expand_from()).batch;
  const ArenaScope scope(arena_);
  Context ctx = context();
  Outputs outputs;
  HiddenHook hook;
  if (hidden)
    hook = [&](i64, const Tensor& h) {
      outputs.hidden.emplace_back(static_cast<std::size_t>(h.numel()));
      backend_.download(outputs.hidden.back().data(), h);
    };
  const Tensor logits = compute(ctx, batch, hook);
  if (!logits.defined()) return outputs;
  outputs.logits.resize(static_cast<std::size_t>(logits.numel()));
  backend_.download(outputs.logits.data(), logits);
  return outputs;
}

}  // namespace fathom
