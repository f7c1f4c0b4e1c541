// A model with its cache and buffers, fed token by token or in ragged batches: the smallest driver that tests need.
// It scatters cache blocks on purpose and poisons what must not be read.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/create.h"
#include "comm/communicator.h"
#include "model/mtp.h"
#include "model/transformer.h"

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
    i64 max_tokens = 1024;  // of one pass
    i64 blocks = 64;        // of the cache
    i64 block_size = 32;
    int threads = 0;
    std::string device = "cpu";
    bool map = false;  // weights stay where their files are mapped
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

  ModelSession(const ModelArgs& args, const Checkpoint& checkpoint, const Settings& settings,
               std::unique_ptr<Communicator> comm)
      : args_(args),
        settings_(settings),
        backend_(create_backend(settings.device, settings.threads)),
        comm_(std::move(comm)),
        store_(checkpoint, *backend_, comm_->rank(), comm_->size(), settings.map),
        model_(Params(store_, args_, settings_.options)),
        cache_(*backend_, args_, args_.n_layers + args_.n_mtp_layers, settings.blocks, settings.block_size,
               settings.options.compute),
        arena_(backend_->allocate(std::size_t{6} << 30)) {
    poison_cache();
    for (i64 i = 0; i < settings.blocks; ++i) free_blocks_.push_back(static_cast<int>((i * 7 + 3) % settings.blocks));
    std::sort(free_blocks_.begin(), free_blocks_.end());
    free_blocks_.erase(std::unique(free_blocks_.begin(), free_blocks_.end()), free_blocks_.end());
    for (std::size_t i = 0; i + 1 < free_blocks_.size(); i += 2) std::swap(free_blocks_[i], free_blocks_[i + 1]);
  }

  // Runs one pass; rows of logits in the order of the pieces.
  Rows step(const std::vector<Piece>& pieces) {
    ArenaScope scope(arena_);
    Context ctx{*backend_, arena_, *comm_, settings_.options};
    const Batch batch = make_batch(pieces);
    hidden_.clear();
    const Tensor logits = model_(ctx, batch, cache_, [&](i64, const Tensor& h) {
      if (keep_hidden) hidden_.push_back(to_host(*backend_, h));
    });
    return rows_of(logits);
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
    const MTP mtp(Params(store_, args_, settings_.options).sub("layers").sub(args_.n_layers), args_.n_layers);
    ArenaScope scope(arena_);
    Context ctx{*backend_, arena_, *comm_, settings_.options};
    Batch batch = make_batch({{0, {ids.begin(), ids.end() - 1}, true}});
    const Tensor h = ops::apply(ctx, model_.forward(ctx, batch, cache_));
    batch.ids = integers({ids.begin() + 1, ids.end()}, batch.ids.shape());
    Rows rows = rows_of(mtp(ctx, h, model_.freqs(), batch, cache_.layer(args_.n_layers)));
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
    std::vector<int> blocks;
  };

  Rows rows_of(const Tensor& x) {
    const std::vector<float> flat = to_host(*backend_, x);
    Rows rows;
    for (i64 i = 0; i < x.dim(0); ++i)
      rows.emplace_back(flat.begin() + i * x.dim(1), flat.begin() + (i + 1) * x.dim(1));
    return rows;
  }

  void poison_cache() {
    for (i64 i = 0; i < args_.n_layers + args_.n_mtp_layers; ++i) {
      const Tensor layer = cache_.layer(i).latent;
      const std::vector<std::uint8_t> nan(static_cast<std::size_t>(layer.bytes()), 0xff);
      backend_->upload(layer, nan.data());
    }
  }

  Tensor integers(const std::vector<std::int32_t>& values, const Shape& shape) {
    const Tensor y = arena_.empty(shape, DType::i32);
    backend_->upload(y, values.data());
    return y;
  }

  Batch make_batch(const std::vector<Piece>& pieces) {
    std::vector<std::int32_t> ids, positions, slots, starts{0}, lens, tables, rows;
    std::size_t max_blocks = 1;
    for (const Piece& piece : pieces) {
      Sequence& sequence = sequences_[piece.sequence];
      for (const int id : piece.tokens) {
        if (sequence.length % settings_.block_size == 0) {
          CHECK(!free_blocks_.empty(), "test cache is full");
          sequence.blocks.push_back(free_blocks_.back());
          free_blocks_.pop_back();
        }
        ids.push_back(id);
        positions.push_back(static_cast<std::int32_t>(sequence.length));
        slots.push_back(static_cast<std::int32_t>(sequence.blocks.back() * settings_.block_size +
                                                  sequence.length % settings_.block_size));
        if (piece.all_logits) rows.push_back(static_cast<std::int32_t>(ids.size()) - 1);
        ++sequence.length;
      }
      if (!piece.all_logits) rows.push_back(static_cast<std::int32_t>(ids.size()) - 1);
      starts.push_back(static_cast<std::int32_t>(ids.size()));
      lens.push_back(static_cast<std::int32_t>(sequence.length));
      max_blocks = std::max(max_blocks, sequence.blocks.size());
    }
    for (const Piece& piece : pieces) {
      std::vector<int> table = sequences_[piece.sequence].blocks;
      table.resize(max_blocks, std::numeric_limits<std::int32_t>::min());  // absurd where nothing may be read
      tables.insert(tables.end(), table.begin(), table.end());
    }
    const auto t = static_cast<i64>(ids.size()), s = static_cast<i64>(pieces.size());
    Batch batch{.ids = integers(ids, {t}), .logit_rows = integers(rows, {static_cast<i64>(rows.size())}), .runs = {}};
    const Tensor position = integers(positions, {t}), slot = integers(slots, {t}), length = integers(lens, {s}),
                 table = integers(tables, {s, static_cast<i64>(max_blocks)});
    const i64 expand_from = settings_.options.attn == AttnImpl::naive ? 0 : backend_->expand_from();
    for (const ops::RunShape& run : ops::attention_runs(starts, lens, expand_from)) {
      std::vector<std::int32_t> run_starts, context_starts{0};
      for (i64 i = run.first; i <= run.first + run.count; ++i)
        run_starts.push_back(starts[static_cast<std::size_t>(i)] - static_cast<std::int32_t>(run.first_token));
      for (i64 i = run.first; i < run.first + run.count; ++i)
        context_starts.push_back(context_starts.back() + lens[static_cast<std::size_t>(i)]);
      batch.runs.push_back({.positions = position.narrow(0, run.first_token, run.tokens),
                            .slots = slot.narrow(0, run.first_token, run.tokens),
                            .seq_starts = integers(run_starts, {run.count + 1}),
                            .context_lens = length.narrow(0, run.first, run.count),
                            .context_starts = integers(context_starts, {run.count + 1}),
                            .block_tables = table.narrow(0, run.first, run.count),
                            .first_token = run.first_token,
                            .total_context = run.total_context,
                            .max_context = run.max_context,
                            .expanded = run.expanded});
    }
    return batch;
  }

  ModelArgs args_;
  Settings settings_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> comm_;
  WeightStore store_;
  Transformer model_;
  LatentCache cache_;
  Arena arena_;
  std::vector<int> free_blocks_;
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
