// Runner: one rank's model with its weights, cache and scratch. Carries out step plans: plan -> device batch -> pass ->
// drawn tokens on the host.
#pragma once

#include <vector>

#include "engine/buffers.h"
#include "engine/decode_graphs.h"
#include "engine/options.h"
#include "engine/plan.h"
#include "model/transformer.h"

namespace fathom {

class Runner final : public StepRunner {
 public:
  // Loads the weights; throws Error before that when the device's memory is known to be too small. Backend and
  // communicator outlive the runner; the checkpoint too with options.map, else it is not needed afterwards.
  Runner(Backend& backend, Communicator& comm, const Checkpoint& checkpoint, const ModelArgs& args,
         const RunnerOptions& options, const WeightStore::Progress& progress = {});
  // The same with weights from `store`, such as random ones for benches.
  Runner(Backend& backend, Communicator& comm, WeightStore store, const ModelArgs& args, const RunnerOptions& options);

  StepResult run(const StepPlan& plan) override;

  // A plan's inputs on the device, until the next plan comes.
  struct Pass {
    Batch batch;
    SampleArgs sampling;
    Tensor log;  // int32 [1 + max_steps, N], when each pass makes itself the next one: see ops::advance
  };
  // The first half of run(), for benches: checks and uploads. A plan that decodes is shaped for its last step.
  Pass prepare(const StepPlan& plan);
  // Enqueues one pass and the drawing of its tokens; a recorded one is replayed. Of a pass that makes itself the next
  // one, as often as its plan has steps.
  void enqueue(const Pass& pass);

  // A pass without drawing, for tools that look at the numbers themselves.
  struct Outputs {
    std::vector<float> logits;               // [N, vocab_size]
    std::vector<std::vector<float>> hidden;  // of each block [T, dim], when asked for
  };
  Outputs forward(const StepPlan& plan, bool hidden);

  const ModelArgs& args() const { return args_; }
  // Whether the host may plan several decode passes at once, so that the device does not wait for it.
  bool plans_ahead() const;
  // What a scheduler may ask for: as given, with the numbers that were left open, and single steps where no plan is to
  // be made ahead.
  Limits limits() const;
  // New tokens of a sequence from which it attends by expanded keys and values.
  i64 expand_from() const;
  const Transformer& model() const { return model_; }
  const LatentCache& cache() const { return cache_; }
  i64 cache_bytes() const { return cache_.bytes(); }
  i64 arena_bytes() const { return arena_bytes_; }
  const DecodeGraphs& graphs() const { return graphs_; }

 private:
  Context context() { return {backend_, arena_, comm_, options_.compute}; }
  void check(const StepPlan& plan) const;
  bool steps_alone(const StepPlan& plan) const;
  Tensor compute(Context& ctx, const Batch& batch, const HiddenHook& hidden = {});
  StepResult run_once(const StepPlan& plan, const Pass& pass);

  Backend& backend_;
  Communicator& comm_;
  ModelArgs args_;
  RunnerOptions options_;
  WeightStore store_;
  Transformer model_;
  Arena buffer_arena_;
  PassBuffers buffers_;
  i64 arena_bytes_ = 0;
  Arena arena_;
  LatentCache cache_;
  i64 steps_left_ = 0;   // of the plan that was prepared, where a pass makes itself the next one
  DecodeGraphs graphs_;  // of passes over all of the above
};

}  // namespace fathom
