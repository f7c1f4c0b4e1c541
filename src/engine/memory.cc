#include "engine/memory.h"

#include <algorithm>

#include "base/bytes_text.h"
#include "engine/buffers.h"
#include "ops/sampling.h"
#include "ops/trace.h"

namespace fathom {
namespace {

// The largest runs that passes of `tokens` tokens can have, one beside the other though no pass has them all. What a
// run takes never falls with its tokens or its contexts, so these bound all others.
std::vector<ops::RunShape> largest_runs(i64 tokens, const Limits& limits, i64 expand_from) {
  const i64 sequences = std::min(tokens, limits.max_sequences),
            longest = std::min(limits.max_seq_len, limits.wanted_blocks() * limits.block_size),
            latent = std::min(tokens, sequences * std::min(expand_from - 1, tokens));
  std::vector<ops::RunShape> runs;
  const auto add = [&](i64 count, i64 of_tokens, i64 total_context, bool expanded) {
    runs.push_back({.count = count,
                    .tokens = of_tokens,
                    .total_context = total_context,
                    .max_context = std::min(total_context, longest),
                    .expanded = expanded});
  };
  if (latent > 0) add(sequences, sequences, sequences * longest, false);  // decodes, which has its own forms
  if (latent > 0) add(1, latent, longest, false);
  if (tokens >= expand_from)  // contexts that are expanded together, or one that is longer
    add(1, tokens, std::max(longest, std::min(sequences * longest, ops::kExpandedKeys)), true);
  return runs;
}

// From so many tokens on, what a pass takes grows with them. Before, kernels for few tokens come and go.
constexpr i64 kFewTokens = 256;

}  // namespace

i64 measure_scratch(const Transformer& model, const ModelArgs& args, const RunnerOptions& options,
                    const WeightStore& store) {
  const Limits& limits = options.limits;
  TraceBackend nothing(store.backend());
  AbsentRanks ranks(store.rank(), store.world_size());
  Arena inputs, measure;
  const PassBuffers buffers(inputs, args, limits);
  const LatentCache cache(nothing, args, args.n_layers, limits.wanted_blocks(), limits.block_size,
                          options.compute.compute);
  Context ctx{nothing, measure, ranks, options.compute};
  const i64 expand_from = options.compute.attn == AttnImpl::naive ? 0 : nothing.expand_from();
  const auto pass = [&](i64 tokens) {
    const ArenaScope scope(measure);
    const auto all = buffers.largest(tokens, largest_runs(tokens, limits, expand_from));
    ops::sample(ctx, model(ctx, all.batch, cache), all.sampling);
  };
  for (i64 tokens = 1; tokens <= std::min(limits.max_tokens, kFewTokens); ++tokens) pass(tokens);
  pass(limits.max_tokens);
  return static_cast<i64>(measure.peak());
}

MemoryNeed measure_memory(const ModelArgs& args, const RunnerOptions& options, const WeightStore& store) {
  WeightStore recorder = store.recorder();
  const Transformer model(Params(recorder, args, options.compute));
  return {recorder.bytes(), measure_scratch(model, args, options, recorder) + PassBuffers::bytes(args, options.limits),
          LatentCache::block_bytes(args, args.n_layers, options.limits.block_size, options.compute.compute)};
}

i64 fitting_blocks(const MemoryNeed& need, const Limits& limits, const std::optional<DeviceMemory>& memory) {
  const i64 wanted = limits.wanted_blocks();
  if (!memory) return wanted;
  // A GPU's memory is given out in pieces, and the driver keeps some for code; operations on a CPU have buffers of each
  // thread, in all at most about 100 MiB and 2 MiB a thread.
  const i64 reserve = (i64{1} << 28) + memory->total / 100;
  const i64 room = (memory->free - need.weights - need.scratch - reserve) / need.block;
  const i64 least = limits.blocks > 0 ? wanted : limits.blocks_of(limits.max_seq_len);
  CHECK(room >= least,
        "{} is too small: {} of weights, {} of scratch for passes of {} tokens, {} of cache for {} tokens and {} in "
        "reserve are needed, and {} of {} are free; a smaller --chunk, --max-seq-len, --max-batch-size or "
        "--cache-tokens needs less, FP8 weights (fathom quantize) take half of bf16, {}",
        memory->device, memory_text(need.weights), memory_text(need.scratch), limits.max_tokens,
        memory_text(least * need.block), least * limits.block_size, memory_text(reserve), memory_text(memory->free),
        memory_text(memory->total),
        memory->host ? "--mmap leaves weights in their files" : "--device cpu uses the machine's memory");
  return std::min(wanted, room);
}

}  // namespace fathom
