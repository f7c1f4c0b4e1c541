#include "engine/runner.h"

#include <algorithm>
#include <utility>

#include "engine/logprobs.h"
#include "engine/memory.h"
#include "ops/sampling.h"

namespace fathom {
namespace {

RunnerOptions resolved(RunnerOptions options, const ModelArgs& args) {
  if (options.max_seq_len == 0) options.max_seq_len = args.max_seq_len;
  CHECK(options.max_seq_len <= args.max_seq_len, "sequences of {} tokens, but the model is made for {}",
        options.max_seq_len, args.max_seq_len);
  CHECK(options.max_tokens > 0 && options.max_sequences > 0 && options.blocks >= 0 && options.block_size > 0 &&
            options.max_steps > 0,
        "a runner needs room: {} tokens, {} sequences, {} blocks of {}, {} steps", options.max_tokens,
        options.max_sequences, options.blocks, options.block_size, options.max_steps);
  return options;
}

// The options, once the device's memory is known to hold all of it.
RunnerOptions checked(const RunnerOptions& options, const ModelArgs& args, Backend& backend, const WeightStore& store) {
  const auto memory = backend.memory();
  if (memory) fitting_blocks(measure_memory(args, options, store), options, memory);
  return options;
}

// Whether the host need not see one token before the next: no numbers are reported, and no set of seen tokens grows.
bool steps_together(const StepPlan& plan) {
  return plan.decodes() && plan.seen.empty() &&
         std::all_of(plan.n_logprobs.begin(), plan.n_logprobs.end(), [](std::int32_t n) { return n < 0; });
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
      options_(checked(resolved(options, args), args_, backend, store)),
      store_(std::move(store)),
      model_(Params(store_, args_, options_.compute)),
      buffer_arena_(backend.allocate(static_cast<std::size_t>(PassBuffers::bytes(args_, options_)))),
      buffers_(buffer_arena_, args_, options_),
      arena_bytes_(measure_scratch(model_, args_, options_, store_)),
      arena_(backend.allocate(static_cast<std::size_t>(arena_bytes_))),
      cache_(backend, args_, args_.n_layers, options_.blocks = free_blocks(), options_.block_size,
             options_.compute.compute),
      graphs_(backend) {}

i64 Runner::expand_from() const { return options_.compute.attn == AttnImpl::naive ? 0 : backend_.expand_from(); }

// The blocks that fit beside what is there by now.
i64 Runner::free_blocks() const {
  const MemoryNeed only_cache{0, 0,
                              args_.n_layers * options_.block_size * (args_.kv_lora_rank + args_.qk_rope_head_dim) *
                                  size_of(options_.compute.compute)};
  return fitting_blocks(only_cache, options_, backend_.memory());
}

void Runner::check(const StepPlan& plan) const {
  CHECK(plan.tokens() > 0 && plan.tokens() <= options_.max_tokens, "a pass of {} tokens; the limit is {}",
        plan.tokens(), options_.max_tokens);
  CHECK(plan.sequences() > 0 && plan.sequences() <= options_.max_sequences, "a pass of {} sequences; the limit is {}",
        plan.sequences(), options_.max_sequences);
  CHECK(plan.steps == 1 || (plan.steps > 1 && plan.steps <= options_.max_steps && steps_together(plan)),
        "{} passes in one plan; the limit is {}, and 1 where tokens are not drawn on the device alone", plan.steps,
        options_.max_steps);
  CHECK(plan.rows() <= options_.max_sequences, "logits of {} tokens; the limit is {}", plan.rows(),
        options_.max_sequences);
  for (const TokenId id : plan.ids)
    CHECK(id >= 0 && id < args_.vocab_size, "token id {} is outside the vocabulary of {}", id, args_.vocab_size);
  for (const std::int32_t length : plan.context_lens)
    CHECK(length + plan.steps - 1 <= options_.max_seq_len, "a sequence of {} tokens; the limit is {}", length,
          options_.max_seq_len);
  for (const std::int32_t block : plan.blocks)
    CHECK(block >= 0 && block < options_.blocks, "block {} of a cache of {}", block, options_.blocks);
}

StepResult Runner::run(const StepPlan& plan) {
  check(plan);
  // The naive form sizes its buffers by the exact contexts, which the host must know.
  const bool together = steps_together(plan) && options_.compute.attn == AttnImpl::absorb;
  CHECK(together || plan.steps == 1, "a plan of {} passes for attention by expanded heads", plan.steps);
  return together ? run_steps(plan) : run_once(plan);
}

// Decode passes one after another, all enqueued before the first token is looked at.
StepResult Runner::run_steps(const StepPlan& plan) {
  const i64 count = plan.tokens();
  auto [batch, sampling] = buffers_.upload(backend_, plan, expand_from());
  Sequences& sequences = batch.runs.front();
  const i64 context = DecodeGraphs::rounded_context(sequences.max_context + plan.steps - 1);
  sequences.max_context = context;
  sequences.total_context = count * context;
  const Tensor log = buffers_.log(count);
  const auto pass = [this, batch = batch, sampling = sampling, log] {
    const ArenaScope scope(arena_);
    Context ctx{backend_, arena_, comm_, options_.compute};
    const Tensor drawn = ops::sample(ctx, model_(ctx, batch, cache_), sampling);
    CHECK(ops::advance(ctx, batch, drawn, sampling.step, log, options_.block_size), "{} cannot advance a batch",
          backend_.name());
  };
  for (i64 i = 0; i < plan.steps; ++i) options_.record ? graphs_.run(count, context, pass) : pass();
  std::vector<std::int32_t> ids(static_cast<std::size_t>((1 + plan.steps) * count));
  backend_.download(ids.data(), log.narrow(0, 0, 1 + plan.steps));
  StepResult result;
  for (auto id = ids.begin() + count; id != ids.end(); ++id) result.rows.push_back({.token = *id, .finite = *id >= 0});
  return result;
}

// Any plan of one pass.
StepResult Runner::run_once(const StepPlan& plan) {
  const auto [batch, sampling] = buffers_.upload(backend_, plan, expand_from());
  const ArenaScope scope(arena_);
  Context ctx{backend_, arena_, comm_, options_.compute};
  if (plan.rows() == 0) {
    model_.forward(ctx, batch, cache_);
    return {};
  }
  const Tensor logits = model_(ctx, batch, cache_);
  const Tensor drawn = ops::sample(ctx, logits, sampling);
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
  Context ctx{backend_, arena_, comm_, options_.compute};
  Outputs outputs;
  HiddenHook hook;
  if (hidden)
    hook = [&](i64, const Tensor& h) {
      outputs.hidden.emplace_back(static_cast<std::size_t>(h.numel()));
      backend_.download(outputs.hidden.back().data(), h);
    };
  if (plan.rows() == 0) {
    model_.forward(ctx, batch, cache_, hook);
    return outputs;
  }
  const Tensor logits = model_(ctx, batch, cache_, hook);
  outputs.logits.resize(static_cast<std::size_t>(logits.numel()));
  backend_.download(outputs.logits.data(), logits);
  return outputs;
}

}  // namespace fathom
