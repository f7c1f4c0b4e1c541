#include "engine/memory.h"

#include <algorithm>

#include "engine/buffers.h"
#include "ops/sampling.h"
#include "ops/trace.h"

namespace fathom {
namespace {

// Stands in for the ranks while a pass is measured: nobody is there, no memory is touched.
class AbsentRanks final : public Communicator {
 public:
  AbsentRanks(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(std::span<const std::byte>, std::span<std::byte>) override {}
  void broadcast(std::vector<std::byte>&) override {}
  void abort() override {}

 private:
  int rank_, size_;
};

double gib(i64 bytes) { return static_cast<double>(bytes) / (1u << 30); }

}  // namespace

i64 measure_scratch(const Transformer& model, const ModelArgs& args, const RunnerOptions& options,
                    const WeightStore& store) {
  const Limits& limits = options.limits;
  TraceBackend nothing(store.backend());
  AbsentRanks ranks(store.rank(), store.world_size());
  Arena inputs, measure;
  const PassBuffers buffers(inputs, args, limits);
  const i64 blocks = limits.wanted_blocks();
  const LatentCache cache(nothing, args, args.n_layers, blocks, limits.block_size, options.compute.compute);
  Context ctx{nothing, measure, ranks, options.compute};
  const i64 context = std::min(limits.max_seq_len, blocks * limits.block_size);
  const auto pass = [&](const PassBuffers::Inputs& all) {
    const ArenaScope scope(measure);
    ops::sample(ctx, model(ctx, all.batch, cache), all.sampling);
  };
  // Sequences may share all their blocks.
  const bool naive = options.compute.attn == AttnImpl::naive;
  pass(buffers.largest(limits.max_tokens, limits.max_sequences, context, naive));
  // Few tokens divide a long context among more blocks, whose parts are scratch.
  for (i64 n = 1; n <= std::min(limits.max_sequences, limits.max_tokens); n *= 2)
    pass(buffers.largest(n, n, context, naive));
  // Of expanded sequences, only one is longer than those that are expanded together.
  if (!naive) pass(buffers.largest(limits.max_tokens, 1, std::max(context, ops::kExpandedKeys), true));
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
  // Memory is given out in pieces, and the driver keeps some for code.
  const i64 reserve = (i64{1} << 28) + memory->total / 100;
  const i64 room = (memory->free - need.weights - need.scratch - reserve) / need.block;
  const i64 least = limits.blocks > 0 ? wanted : limits.blocks_of(limits.max_seq_len);
  CHECK(room >= least,
        "{} is too small: {:.2f} GiB of weights, {:.2f} GiB of scratch for passes of {} tokens, {:.2f} GiB of cache "
        "for {} tokens and {:.2f} GiB in reserve are needed, and {:.2f} of {:.2f} GiB are free; a smaller --chunk, "
        "--max-seq-len, --max-batch-size or --cache-tokens needs less, FP8 weights (fathom quantize) take half of "
        "bf16, --device cpu uses the machine's memory",
        memory->device, gib(need.weights), gib(need.scratch), limits.max_tokens, gib(least * need.block),
        least * limits.block_size, gib(reserve), gib(memory->free), gib(memory->total));
  return std::min(wanted, room);
}

}  // namespace fathom
