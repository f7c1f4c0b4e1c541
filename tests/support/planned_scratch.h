// Whether the scratch of any pass is in the plan that is made before anything is loaded. Nothing is computed, so any
// device will do, also one that is not here.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "engine/buffers.h"
#include "engine/memory.h"
#include "ops/trace.h"

namespace fathom::test {

// A random plan within the limits: sequences that decode, that have a few tokens and that have many, with any context.
inline StepPlan random_plan(const Limits& limits, std::mt19937& random) {
  const auto upto = [&](i64 n) { return 1 + static_cast<i64>(random() % static_cast<std::uint64_t>(n)); };
  const i64 few = upto(100), many = random() % 2 == 0 ? limits.max_tokens : upto(limits.max_tokens);
  const i64 kind = upto(4);  // all decode, few tokens each, mixed, one prompt beside the others
  i64 left = many, sequences = random() % 3 == 0 ? upto(limits.max_sequences) : std::min(limits.max_sequences, left);
  std::vector<i64> counts;
  for (; sequences > 0 && left > 0; --sequences) {
    const i64 wanted = kind == 1   ? 1
                       : kind == 2 ? upto(few)
                       : kind == 3 ? upto(std::max<i64>(2 * many / sequences, 1))
                                   : 1;
    counts.push_back(std::min({wanted, left, limits.max_seq_len}));
    left -= counts.back();
  }
  if (kind == 4) counts.back() = std::min(counts.back() + left, limits.max_seq_len);
  std::sort(counts.begin(), counts.end());
  std::vector<std::int32_t> table(static_cast<std::size_t>(limits.blocks_of(limits.max_seq_len)));
  std::iota(table.begin(), table.end(), 0);
  StepPlan plan;
  const bool long_contexts = random() % 2 == 0;
  for (const i64 count : counts) {
    const i64 room = limits.max_seq_len - count, start = long_contexts ? room : upto(room + 1) - 1;
    const std::vector<TokenId> ids(static_cast<std::size_t>(count), 1);
    plan.add_sequence(ids, start, std::span(table).first(static_cast<std::size_t>(limits.blocks_of(start + count))),
                      limits.block_size);
    if (plan.rows() < limits.max_rows) plan.add_row({});
  }
  return plan;
}

// Random plans on a model as it would be on `device`, which only answers what it would choose.
inline void expect_passes_planned(const Backend& device, const ModelArgs& args, RunnerOptions options, int plans) {
  Limits& limits = options.limits;
  limits.max_seq_len = args.max_seq_len;
  limits.max_rows = limits.max_sequences;
  TraceBackend nothing(&device);
  WeightStore recorder = WeightStore(nothing, 0, 1).recorder();
  const Transformer model(Params(recorder, args, options.compute));
  const i64 planned = measure_scratch(model, args, options, recorder);
  Arena inputs, measure;
  PassBuffers buffers(inputs, args, limits);
  const LatentCache cache(nothing, args, args.n_layers, limits.wanted_blocks(), limits.block_size,
                          options.compute.compute);
  SingleCommunicator alone;
  Context ctx{nothing, measure, alone, options.compute};
  std::mt19937 random(1);
  for (int i = 0; i < plans; ++i) {
    const StepPlan plan = random_plan(limits, random);
    const i64 expand_from = options.compute.attn == AttnImpl::naive ? 0 : device.expand_from();
    const PassBuffers::Inputs pass = buffers.upload(nothing, plan, expand_from);
    const ArenaScope scope(measure);
    ops::sample(ctx, model(ctx, pass.batch, cache), pass.sampling);
    ASSERT_LE(static_cast<i64>(measure.peak()), planned)
        << "pass " << i << " of " << plan.tokens() << " tokens of " << plan.sequences() << " sequences, the longest of "
        << *std::max_element(plan.context_lens.begin(), plan.context_lens.end());
  }
  EXPECT_GE(static_cast<i64>(measure.peak()), planned / 4);  // the plan is no guess either
}

// Shapes of published models, cut to a layer of each kind; and contexts of which fewer heads are expanded at a time
// than of some that are shorter.
inline std::vector<ModelArgs> scratch_models() {
  ModelArgs small, large;  // the reference's 16B defaults; 671B
  small.n_layers = 2, small.n_dense_layers = 1, small.max_seq_len = 163840;
  large = small;
  large.dim = 7168, large.inter_dim = 18432, large.moe_inter_dim = 2048, large.vocab_size = 129280;
  large.n_heads = 128, large.q_lora_rank = 1536, large.n_routed_experts = 256, large.n_activated_experts = 8;
  large.n_shared_experts = 1, large.n_expert_groups = 8, large.n_limited_groups = 4, large.score_func = "sigmoid";
  large.dtype = "fp8";
  ModelArgs longer = small;
  longer.max_seq_len = 270000;
  return {small, large, longer};
}

}  // namespace fathom::test
