// A runner fed token by token or in ragged batches. It scatters cache blocks on purpose and poisons what must not be
// read.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/create.h"
#include "comm/communicator.h"
#include "engine/runner.h"
#include "model/mtp.h"

namespace fathom::test {

// A tensor's numbers as float32 on the host.
inline std::vector<float> to_host(Backend& backend, const Tensor& x) {
  std::vector<float> values(static_cast<std::size_t>(x.numel()));
  if (x.dtype() == DType::f32) {
    backend.download(values.data(), x);
  } else {
    std::vector<bf16_bits> bits(values.size());
    backend.download(bits.data(), x);
    std::transform(bits.begin(), bits.end(), values.begin(), bf16_to_float);
  }
  return values;
}

class ModelSession {
 public:
  struct Settings {
    ComputeOptions options;
    i64 blocks = 64;  // of the cache; a pass may fill them all
    i64 block_size = 32;
    int threads = 0;
    std::string device = "cpu";
    bool map = false;  // weights stay where their files are mapped

    Limits limits() const {
      Limits limits{.max_tokens = blocks * block_size, .max_sequences = 16};
      limits.max_rows = limits.max_seq_len = limits.max_tokens;
      limits.blocks = blocks, limits.block_size = block_size;
      return limits;
    }
  };
  // Tokens for one sequence in one pass.
  struct Piece {
    int sequence;
    std::vector<int> tokens;
    bool all_logits = false;  // else of the last token only
  };
  using Rows = std::vector<std::vector<float>>;

  ModelSession(const ModelArgs& args, const Checkpoint& checkpoint, const Settings& settings)
      : ModelSession(args, checkpoint, settings, std::make_unique<SingleCommunicator>()) {}

  // The checkpoint outlives the session.
  ModelSession(const ModelArgs& args, const Checkpoint& checkpoint, const Settings& settings,
               std::unique_ptr<Communicator> comm)
      : checkpoint_(checkpoint),
        settings_(settings),
        backend_(create_backend(settings.device, settings.threads)),
        comm_(std::move(comm)),
        runner_(*backend_, *comm_, checkpoint, args,
                {.limits = settings.limits(), .map = settings.map, .compute = settings.options}) {
    poison(runner_.cache(), args.n_layers);
    for (i64 i = 0; i < settings.blocks; ++i) free_blocks_.push_back(static_cast<int>(i));
    for (std::size_t i = 0; i + 1 < free_blocks_.size(); i += 2) std::swap(free_blocks_[i], free_blocks_[i + 1]);
  }

  // Runs one pass; rows of logits in the order of the pieces.
  Rows step(const std::vector<Piece>& pieces) {
    Runner::Outputs outputs = runner_.forward(plan_of(pieces), keep_hidden);
    hidden_ = std::move(outputs.hidden);
    return rows_of(outputs.logits);
  }

  // The prompt in chunks of `chunk` tokens (0: whole), then each of `then` alone: rows after the prompt and after each.
  Rows run(int sequence, const std::vector<int>& prompt, const std::vector<int>& then = {}, i64 chunk = 0) {
    Rows rows;
    const auto size = static_cast<i64>(prompt.size());
    const i64 step_size = chunk > 0 ? chunk : size;
    for (i64 start = 0; start < size; start += step_size) {
      const std::vector<int> part(prompt.begin() + start, prompt.begin() + std::min(size, start + step_size));
      rows = step({{sequence, part}});
    }
    for (const int id : then) rows.push_back(step({{sequence, {id}}})[0]);
    return rows;
  }

  // The first MTP module over a whole sequence: logits for token i + 2 at each i in [0, n - 2].
  Rows predict_next(const std::vector<int>& ids) {
    const ModelArgs& args = runner_.args();
    const ComputeOptions& options = settings_.options;
    WeightStore store(checkpoint_, *backend_, comm_->rank(), comm_->size(), settings_.map);
    const MTP mtp(Params(store, args, options).sub("layers").sub(args.n_layers), args.n_layers);
    const LatentCache cache(*backend_, args, 1, settings_.blocks, settings_.block_size, options.compute);
    poison(cache, 1);
    Arena arena(backend_->allocate(std::size_t{2} << 30));
    Context ctx{*backend_, arena, *comm_, options};
    PassBuffers buffers(arena, args, settings_.limits());
    Batch batch =
        buffers.upload(*backend_, plan_of({{0, {ids.begin(), ids.end() - 1}, true}}), runner_.expand_from()).batch;
    const Tensor h = ops::apply(ctx, runner_.model().forward(ctx, batch, runner_.cache()));
    batch.ids = arena.empty(batch.ids.shape(), DType::i32);
    backend_->upload(batch.ids, ids.data() + 1);
    Rows rows = rows_of(to_host(*backend_, mtp(ctx, h, runner_.model().freqs(), batch, cache.layer(0))));
    forget(0);
    return rows;
  }

  void forget(int sequence) {
    for (const int block : sequences_[sequence].blocks) free_blocks_.push_back(block);
    sequences_.erase(sequence);
  }

  const std::vector<std::vector<float>>& hidden() const { return hidden_; }
  bool keep_hidden = false;

 private:
  struct Sequence {
    i64 length = 0;
    std::vector<std::int32_t> blocks;
  };

  Rows rows_of(const std::vector<float>& flat) const {
    const i64 width = runner_.args().vocab_size;
    Rows rows;
    for (auto at = flat.begin(); at != flat.end(); at += width) rows.emplace_back(at, at + width);
    return rows;
  }

  void poison(const LatentCache& cache, i64 layers) {
    for (i64 i = 0; i < layers; ++i) {
      const Tensor layer = cache.layer(i).latent;
      const std::vector<std::uint8_t> nan(static_cast<std::size_t>(layer.bytes()), 0xff);
      backend_->upload(layer, nan.data());
    }
  }

  // The pieces after what their sequences have so far, which they grow by.
  StepPlan plan_of(const std::vector<Piece>& pieces) {
    StepPlan plan;
    for (const Piece& piece : pieces) {
      Sequence& sequence = sequences_[piece.sequence];
      const i64 start = sequence.length;
      sequence.length += static_cast<i64>(piece.tokens.size());
      while (static_cast<i64>(sequence.blocks.size()) * settings_.block_size < sequence.length) {
        CHECK(!free_blocks_.empty(), "test cache is full");
        sequence.blocks.push_back(free_blocks_.back());
        free_blocks_.pop_back();
      }
      const auto first = static_cast<std::int32_t>(plan.tokens());
      plan.add_sequence(piece.tokens, start, sequence.blocks, settings_.block_size);
      const auto end = static_cast<std::int32_t>(plan.tokens());
      for (std::int32_t row = piece.all_logits ? first : end - 1; row < end; ++row) {
        plan.add_row({{.temperature = 0}});
        plan.logit_rows.back() = row;
      }
    }
    return plan;
  }

  const Checkpoint& checkpoint_;
  Settings settings_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> comm_;
  Runner runner_;
  std::vector<std::int32_t> free_blocks_;
  std::map<int, Sequence> sequences_;
  std::vector<std::vector<float>> hidden_;
};

// ||x - y|| / ||y||
inline double relative_error(const std::vector<float>& x, const std::vector<float>& y) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    difference += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
    norm += static_cast<double>(y[i]) * y[i];
  }
  return std::sqrt(difference / norm);
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace fathom::test
