// MLA against the reference's formulas (model.py, class MLA, the naive form) in double precision.
#include "model/mla.h"

#include <cmath>

#include "model/paired_rope.h"
#include "model/rope.h"
#include "support/module.h"

namespace fathom {
namespace {

using namespace test;

constexpr i64 kDim = 40, kHeads = 3, kLatent = 32, kNope = 16, kRope = 8, kValue = 24, kBlockSize = 4;

ModelArgs small_args(i64 q_lora_rank, bool yarn) {
  ModelArgs args;
  args.dtype = "bf16";
  args.dim = kDim;
  args.n_layers = args.n_dense_layers = 1;
  args.inter_dim = 16;
  args.vocab_size = 16;
  args.n_heads = kHeads;
  args.q_lora_rank = q_lora_rank;
  args.kv_lora_rank = kLatent;
  args.qk_nope_head_dim = kNope;
  args.qk_rope_head_dim = kRope;
  args.v_head_dim = kValue;
  args.max_seq_len = 64;
  args.original_seq_len = 16;
  args.rope_theta = 100;
  args.rope_factor = 4;
  args.mscale = 0.7;
  args.yarn = yarn;
  args.rms_norm_eps = 1e-3;  // would be seen, but is not that of latents
  return args;
}

// One sequence, all of its tokens at once, by the reference's naive form. `freqs` is the table of cosines and sines.
class Reference {
 public:
  Reference(const ModelArgs& args, const MadeWeights& weights, std::vector<float> freqs)
      : args_(args), weights_(weights), freqs_(std::move(freqs)) {}

  // What attention adds to each row of x.
  Matrix operator()(const Matrix& x) const {
    const Matrix q = queries(x);
    Matrix latent, keys;
    for (std::size_t t = 0; const std::vector<double>& row : times(x, weight("wkv_a"))) {
      latent.emplace_back(row.begin(), row.begin() + kLatent);
      keys.emplace_back(row.begin() + kLatent, row.end());
      rotate(keys.back().data(), t++);
    }
    const Matrix kv = times(rms_norm(latent, weight("kv_norm"), 1e-6), weight("wkv_b"));
    Matrix out;
    for (std::size_t t = 0; t < x.size(); ++t) {
      out.emplace_back();
      for (i64 h = 0; h < kHeads; ++h) append_head(out.back(), q[t], kv, keys, t, h);
    }
    return times(out, weight("wo"));
  }

 private:
  std::vector<double> weight(const std::string& name) const {
    return weights_.numbers("layers.0.attn." + name + ".weight");
  }

  // The two entries of a pair: neighbours, or of two halves.
  std::pair<std::size_t, std::size_t> pair_of(std::size_t i) const {
    return args_.rope_interleave ? std::pair{2 * i, 2 * i + 1} : std::pair{i, i + kRope / 2};
  }

  Matrix queries(const Matrix& x) const {
    Matrix q = args_.q_lora_rank == 0
                   ? times(x, weight("wq"))
                   : times(rms_norm(times(x, weight("wq_a")), weight("q_norm"), 1e-6), weight("wq_b"));
    for (std::size_t t = 0; t < q.size(); ++t)
      for (i64 h = 0; h < kHeads; ++h) rotate(q[t].data() + h * (kNope + kRope) + kNope, t);
    return q;
  }

  // Pairs as complex numbers.
  void rotate(double* x, std::size_t position) const {
    for (std::size_t i = 0; i < kRope / 2; ++i) {
      const double cos = freqs_[position * kRope + 2 * i], sin = freqs_[position * kRope + 2 * i + 1];
      const auto [a, b] = pair_of(i);
      const double real = x[a] * cos - x[b] * sin;
      x[b] = x[a] * sin + x[b] * cos;
      x[a] = real;
    }
  }

  void append_head(std::vector<double>& out, const std::vector<double>& q, const Matrix& kv, const Matrix& keys,
                   std::size_t last, i64 h) const {
    double scale = 1 / std::sqrt(static_cast<double>(kNope + kRope));
    if (args_.yarn) scale *= std::pow(0.1 * args_.mscale * std::log(args_.rope_factor) + 1, 2);
    const double* query = q.data() + h * (kNope + kRope);
    std::vector<double> weights;
    double sum = 0;
    for (std::size_t t = 0; t <= last; ++t) {
      const double* key = kv[t].data() + h * (kNope + kValue);
      double score = 0;
      for (i64 i = 0; i < kNope; ++i) score += query[i] * key[i];
      for (i64 i = 0; i < kRope; ++i) score += query[kNope + i] * keys[t][static_cast<std::size_t>(i)];
      sum += weights.emplace_back(std::exp(score * scale));
    }
    for (i64 i = 0; i < kValue; ++i) {
      double value = 0;
      for (std::size_t t = 0; t <= last; ++t)
        value += weights[t] / sum * kv[t][static_cast<std::size_t>(h * (kNope + kValue) + kNope + i)];
      out.push_back(value);
    }
  }

  const ModelArgs& args_;
  const MadeWeights& weights_;
  std::vector<float> freqs_;
};

HostTensor integers(const std::vector<double>& numbers, const Shape& shape) {
  HostTensor y(shape, DType::i32);
  y.copy(numbers);
  return y;
}

// Tokens first .. first + count of one sequence whose cache blocks are `blocks`.
struct Part {
  Part(double first, double count, const std::vector<double>& blocks, bool expanded)
      : positions({static_cast<i64>(count)}, DType::i32),
        slots({static_cast<i64>(count)}, DType::i32),
        starts(integers({0, count}, {2})),
        length(integers({first + count}, {1})),
        context(integers({0, first + count}, {2})),
        table(integers(blocks, {1, static_cast<i64>(blocks.size())})) {
    positions.fill([&](i64 i) { return first + static_cast<double>(i); });
    slots.fill([&](i64 i) {
      const i64 position = static_cast<i64>(first) + i;
      return blocks[static_cast<std::size_t>(position / kBlockSize)] * kBlockSize +
             static_cast<double>(position % kBlockSize);
    });
    const auto all = static_cast<i64>(first + count);
    run = {*positions, *slots, *starts, *length, *context, *table, 0, all, all, expanded};
  }

  HostTensor positions, slots, starts, length, context, table;
  Sequences run;
};

// How two sequences attend: the first `latent` or not, the second likewise.
struct Form {
  AttnImpl attn;
  bool first_expanded, second_expanded;
};

// Two passes over two sequences: 5 and 3 tokens, then 1 and 4. Every row of h must be what the reference makes of all.
void check_passes(Backend& backend, const ModelArgs& args, const Form& form, bool fused) {
  const MadeWeights weights(args);
  const ComputeOptions options{.compute = DType::f32, .attn = form.attn, .fused = fused};
  const PairedRopeCheckpoint paired(weights, args);
  Surroundings around(backend, args, args.rope_interleave ? static_cast<const Checkpoint&>(weights) : paired, options);
  const MLA mla(around.params().sub("layers").sub(0).sub("attn"));
  around.load();

  const std::vector<float> table = precompute_freqs_cis(args);
  HostTensor freqs({args.max_seq_len, kRope / 2, 2}, DType::f32), latent({8, kBlockSize, kLatent + kRope}, DType::f32);
  freqs.fill([&](i64 i) { return table[static_cast<std::size_t>(i)]; });
  latent.fill([](i64) { return std::nan(""); });  // what was not written must not be read
  const CacheLayer cache{*latent, kLatent};
  Random random(5);
  const HostTensor a = HostTensor({6, kDim}, DType::f32).normal(random, 2),
                   b = HostTensor({7, kDim}, DType::f32).normal(random, 2);
  const HostTensor gain = HostTensor({kDim}, DType::f32).normal(random),
                   next = HostTensor({kDim}, DType::f32).normal(random);
  const std::vector<double> all_a = values(*a), all_b = values(*b);

  std::vector<double> got_a, got_b;
  for (const auto& [from_a, count_a, from_b, count_b] :
       {std::array<i64, 4>{0, 5, 0, 3}, std::array<i64, 4>{5, 1, 3, 4}}) {
    HostTensor h({count_a + count_b, kDim}, DType::f32);
    h.fill([&, n = count_a, fa = from_a, fb = from_b](i64 i) {
      return i < n * kDim ? all_a[static_cast<std::size_t>(fa * kDim + i)]
                          : all_b[static_cast<std::size_t>((fb - n) * kDim + i)];
    });
    Part first(static_cast<double>(from_a), static_cast<double>(count_a), {6, 2}, form.first_expanded),
        second(static_cast<double>(from_b), static_cast<double>(count_b), {3, 7}, form.second_expanded);
    second.run.first_token = count_a;
    const std::vector<Sequences> runs = {first.run, second.run};
    const Normed after =
        mla(around.context(), *h, Normed(*h, Norm{*gain, 1e-3f}), *freqs, runs, cache, Norm{*next, 1e-3f});
    const std::vector<double> rows = values(*h);
    h.expect_guards_intact();
    EXPECT_LT(
        largest_error(values(ops::apply(around.context(), after)), rms_norm(rows_of(rows, kDim), values(*next), 1e-3)),
        1e-5);
    got_a.insert(got_a.end(), rows.begin(), rows.begin() + count_a * kDim);
    got_b.insert(got_b.end(), rows.begin() + count_a * kDim, rows.end());
  }
  const Reference reference(args, weights, table);
  for (const auto& [x, got] : {std::pair{all_a, got_a}, std::pair{all_b, got_b}}) {
    Matrix expected = rows_of(x, kDim);
    const Matrix added = reference(rms_norm(expected, values(*gain), 1e-3));
    for (std::size_t t = 0; t < expected.size(); ++t)
      for (std::size_t i = 0; i < kDim; ++i) expected[t][i] += added[t][i];
    EXPECT_LT(largest_error(got, expected), 1e-5);
  }
}

TEST(MLA, EqualsTheReferenceInEveryForm) {
  for_each_backend([](Backend& backend) {
    for (const Form& form : {Form{AttnImpl::naive, true, true}, Form{AttnImpl::absorb, false, false},
                             Form{AttnImpl::absorb, false, true}, Form{AttnImpl::absorb, true, false}})
      for (const bool fused : {false, true}) {
        SCOPED_TRACE(fmt::format("naive {}, expanded {} {}, fused {}", form.attn == AttnImpl::naive,
                                 form.first_expanded, form.second_expanded, fused));
        check_passes(backend, small_args(20, true), form, fused);
      }
  });
}

TEST(MLA, QueriesMayComeStraightFromTheInput) {
  for_each_backend([](Backend& backend) {
    check_passes(backend, small_args(0, true), {AttnImpl::absorb, false, false}, true);
  });
}

TEST(MLA, WithoutYarnTheScaleIsPlain) {
  for_each_backend([](Backend& backend) {
    check_passes(backend, small_args(20, false), {AttnImpl::absorb, false, true}, true);
  });
}

TEST(MLA, RotatesHalvesWhereTheConfigurationSaysSo) {
  for_each_backend([](Backend& backend) {
    for (const i64 q_lora_rank : {0, 20}) {
      ModelArgs args = small_args(q_lora_rank, true);
      args.rope_interleave = false;
      check_passes(backend, args, {AttnImpl::absorb, false, true}, true);
      check_passes(backend, args, {AttnImpl::naive, true, true}, true);
    }
  });
}

}  // namespace
}  // namespace fathom
