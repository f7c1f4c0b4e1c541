#include "engine/runner.h"

#include <algorithm>
#include <utility>

#include "engine/logprobs.h"
#include "ops/ops.h"
#include "ops/trace.h"

namespace fathom {
namespace {

// Stands in for the ranks while a pass is measured: nobody is there, no memory is touched.
class AbsentRanks final : public Communicator {
 public:
  AbsentRanks(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(const Tensor&) override {}
  void all_gather(const Tensor&, const Tensor&) override {}
  void broadcast(std::vector<std::byte>&) override {}
  void abort() override {}

 private:
  int rank_, size_;
};

RunnerOptions resolved(RunnerOptions options, const ModelArgs& args) {
  if (options.max_seq_len == 0) options.max_seq_len = args.max_seq_len;
  CHECK(options.max_seq_len <= args.max_seq_len, "sequences of {} tokens, but the model is made for {}",
        options.max_seq_len, args.max_seq_len);
  CHECK(options.max_tokens > 0 && options.max_sequences > 0 && options.blocks > 0 && options.block_size > 0,
        "a runner needs room: {} tokens, {} sequences, {} blocks of {}", options.max_tokens, options.max_sequences,
        options.blocks, options.block_size);
  return options;
}

// Bit set of the tokens that each row of the plan has seen: [N, ceil(vocab / 8)].
std::vector<std::uint8_t> seen_bits(const StepPlan& plan, i64 vocab_size) {
  const auto width = static_cast<std::size_t>((vocab_size + 7) / 8);
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(plan.rows()) * width);
  for (std::size_t row = 0; row < static_cast<std::size_t>(plan.rows()); ++row)
    for (auto i = static_cast<std::size_t>(plan.seen_starts[row]);
         i < static_cast<std::size_t>(plan.seen_starts[row + 1]); ++i) {
      const auto id = static_cast<std::size_t>(plan.seen[i]);
      bits[row * width + id / 8] |= static_cast<std::uint8_t>(1u << id % 8);
    }
  return bits;
}

std::vector<std::int32_t> running_sum(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> sums{0};
  for (const std::int32_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

}  // namespace

Runner::Runner(Backend& backend, Communicator& comm, const Checkpoint& checkpoint, const ModelArgs& args,
               const RunnerOptions& options, const WeightStore::Progress& progress)
    : backend_(backend),
      comm_(comm),
      args_(args),
      options_(resolved(options, args)),
      store_(checkpoint, backend, comm.rank(), comm.size(), progress),
      model_(Params(store_, args_, options_.compute)),
      cache_(backend, args_, args_.n_layers, options_.blocks, options_.block_size, options_.compute.compute),
      buffer_arena_(backend.allocate(measure_buffers())),
      buffers_(make_buffers(buffer_arena_)),
      arena_bytes_(static_cast<i64>(measure_pass())),
      arena_(backend.allocate(static_cast<std::size_t>(arena_bytes_))) {}

Runner::Buffers Runner::make_buffers(Arena& arena) const {
  const i64 tokens = options_.max_tokens, sequences = options_.max_sequences;
  const i64 longest = (options_.max_seq_len + options_.block_size - 1) / options_.block_size;
  const auto i32s = [&](i64 n) { return arena.empty({n}, DType::i32); };
  const auto f32s = [&] { return arena.empty({sequences}, DType::f32); };
  const auto i64s = [&] { return arena.empty({sequences}, DType::i64); };
  return {.ids = i32s(tokens),
          .positions = i32s(tokens),
          .slots = i32s(tokens),
          .seq_starts = i32s(sequences + 1),
          .context_lens = i32s(sequences),
          .context_starts = i32s(sequences + 1),
          .block_tables = arena.empty({sequences, longest}, DType::i32),
          .logit_rows = i32s(sequences),
          .top_k = i32s(sequences),
          .temperature = f32s(),
          .top_p = f32s(),
          .min_p = f32s(),
          .repetition_penalty = f32s(),
          .seed = i64s(),
          .step = i64s(),
          .seen = arena.empty({sequences, (args_.vocab_size + 7) / 8}, DType::u8)};
}

std::size_t Runner::measure_buffers() const {
  Arena measure;
  make_buffers(measure);
  return measure.peak();
}

// The largest pass, run on a backend that does nothing: what it takes from the arena is what the arena must hold.
std::size_t Runner::measure_pass() {
  TraceBackend nothing;
  AbsentRanks ranks(comm_.rank(), comm_.size());
  Arena measure;
  Context ctx{nothing, measure, ranks, options_.compute};
  Batch batch{.ids = buffers_.ids,
              .positions = buffers_.positions,
              .slots = buffers_.slots,
              .seq_starts = buffers_.seq_starts,
              .context_lens = buffers_.context_lens,
              .context_starts = buffers_.context_starts,
              .block_tables = buffers_.block_tables,
              .logit_rows = buffers_.logit_rows};
  batch.max_context = std::min(options_.max_seq_len, options_.blocks * options_.block_size);
  batch.total_context = options_.max_sequences * batch.max_context;  // sequences may share all their blocks
  const Tensor logits = model_(ctx, batch, cache_);
  ops::sample(ctx, logits,
              {.temperature = buffers_.temperature,
               .top_k = buffers_.top_k,
               .top_p = buffers_.top_p,
               .min_p = buffers_.min_p,
               .repetition_penalty = buffers_.repetition_penalty,
               .seed = buffers_.seed,
               .step = buffers_.step,
               .seen = buffers_.seen});
  return measure.peak();
}

void Runner::check(const StepPlan& plan) const {
  CHECK(plan.tokens() > 0 && plan.tokens() <= options_.max_tokens, "a pass of {} tokens; the limit is {}",
        plan.tokens(), options_.max_tokens);
  CHECK(plan.sequences() > 0 && plan.sequences() <= options_.max_sequences, "a pass of {} sequences; the limit is {}",
        plan.sequences(), options_.max_sequences);
  CHECK(plan.rows() <= options_.max_sequences, "logits of {} tokens; the limit is {}", plan.rows(),
        options_.max_sequences);
  for (const TokenId id : plan.ids)
    CHECK(id >= 0 && id < args_.vocab_size, "token id {} is outside the vocabulary of {}", id, args_.vocab_size);
  for (const std::int32_t length : plan.context_lens)
    CHECK(length <= options_.max_seq_len, "a sequence of {} tokens; the limit is {}", length, options_.max_seq_len);
  for (const std::int32_t block : plan.blocks)
    CHECK(block >= 0 && block < options_.blocks, "block {} of a cache of {}", block, options_.blocks);
}

template <typename T>
Tensor Runner::fill(const Tensor& buffer, const std::vector<T>& values) {
  const Tensor part = buffer.narrow(0, 0, static_cast<i64>(values.size()));
  if (!values.empty()) backend_.upload(part, values.data());
  return part;
}

Batch Runner::upload_batch(const StepPlan& plan) {
  const auto width = static_cast<std::size_t>(buffers_.block_tables.dim(1));
  std::vector<std::int32_t> tables(static_cast<std::size_t>(plan.sequences()) * width);
  for (std::size_t s = 0; s < static_cast<std::size_t>(plan.sequences()); ++s)
    std::copy(plan.blocks.begin() + plan.block_starts[s], plan.blocks.begin() + plan.block_starts[s + 1],
              tables.begin() + static_cast<std::ptrdiff_t>(s * width));
  const auto context_starts = running_sum(plan.context_lens);
  const Tensor table = buffers_.block_tables.narrow(0, 0, plan.sequences());
  backend_.upload(table, tables.data());
  return {.ids = fill(buffers_.ids, plan.ids),
          .positions = fill(buffers_.positions, plan.positions),
          .slots = fill(buffers_.slots, plan.slots),
          .seq_starts = fill(buffers_.seq_starts, plan.seq_starts),
          .context_lens = fill(buffers_.context_lens, plan.context_lens),
          .context_starts = fill(buffers_.context_starts, context_starts),
          .block_tables = table,
          .logit_rows = fill(buffers_.logit_rows, plan.logit_rows),
          .total_context = context_starts.back(),
          .max_context = *std::max_element(plan.context_lens.begin(), plan.context_lens.end())};
}

SampleArgs Runner::upload_sampling(const StepPlan& plan) {
  SampleArgs args{.temperature = fill(buffers_.temperature, plan.temperature),
                  .top_k = fill(buffers_.top_k, plan.top_k),
                  .top_p = fill(buffers_.top_p, plan.top_p),
                  .min_p = fill(buffers_.min_p, plan.min_p),
                  .repetition_penalty = fill(buffers_.repetition_penalty, plan.repetition_penalty),
                  .seed = fill(buffers_.seed, plan.seed),
                  .step = fill(buffers_.step, plan.step),
                  .seen = {}};
  if (plan.seen.empty()) return args;
  args.seen = buffers_.seen.narrow(0, 0, plan.rows());
  backend_.upload(args.seen, seen_bits(plan, args_.vocab_size).data());
  return args;
}

StepResult Runner::run(const StepPlan& plan) {
  check(plan);
  const Batch batch = upload_batch(plan);
  const ArenaScope scope(arena_);
  Context ctx{backend_, arena_, comm_, options_.compute};
  if (plan.rows() == 0) {
    model_.forward(ctx, batch, cache_);
    return {};
  }
  const Tensor logits = model_(ctx, batch, cache_);
  const Tensor drawn = ops::sample(ctx, logits, upload_sampling(plan));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(plan.rows()));
  backend_.download(ids.data(), drawn);
  const auto vocab = static_cast<std::size_t>(args_.vocab_size);
  std::vector<float> numbers(ids.size() * vocab);
  backend_.download(numbers.data(), logits);
  StepResult result;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    const auto of_row = std::span<const float>(numbers).subspan(row * vocab, vocab);
    Drawn one{.token = ids[row], .finite = all_finite(of_row)};
    if (one.finite && plan.n_logprobs[row] >= 0) {
      one.logprob = logprob_of(of_row, one.token);
      one.top_logprobs = top_logprobs(of_row, plan.n_logprobs[row]);
    }
    result.rows.push_back(std::move(one));
  }
  return result;
}

Runner::Outputs Runner::forward(const StepPlan& plan, bool hidden) {
  check(plan);
  const Batch batch = upload_batch(plan);
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
