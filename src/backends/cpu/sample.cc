// Drawing tokens from logits.
//
// Randomness: the noise of token v in a row is a pure function of (seed, step, v), so a row's choice depends on nothing
// else. mix() is the finaliser of splitmix64; u = (mix(mix(mix(seed) + step) + v) >> 11 + 1/2) * 2^-53 lies in (0, 1)
// and -log(-log(u)) is Gumbel noise: the largest logit + noise is a draw from the softmax.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/cpu/act.h"
#include "backends/cpu/cpu_backend.h"

namespace fathom {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Candidate {
  float logit;
  std::int32_t id;
};

// Better candidates first; equal logits by id, so that cuts are the same on every run.
bool better(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }
bool worse(const Candidate& a, const Candidate& b) { return better(b, a); }

std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

struct RowArgs : RowSampling {
  const std::uint8_t* seen;
};

float penalised(float logit, std::int32_t id, const RowArgs& args) {
  if (std::isnan(logit)) return kNever;
  if (args.seen == nullptr || args.repetition_penalty == 1 || (args.seen[id >> 3] >> (id & 7) & 1) == 0) return logit;
  return logit > 0 ? logit / args.repetition_penalty : logit * args.repetition_penalty;
}

std::vector<Candidate> candidates(const float* logits, i64 vocab, const RowArgs& args) {
  std::vector<Candidate> list;
  list.reserve(static_cast<std::size_t>(vocab));
  for (std::int32_t id = 0; id < vocab; ++id) {
    const float logit = penalised(logits[id], id, args);
    if (logit != kNever) list.push_back({logit, id});
  }
  return list;
}

void keep_top_k(std::vector<Candidate>& list, i64 k) {
  if (k <= 0 || static_cast<std::size_t>(k) >= list.size()) return;
  std::nth_element(list.begin(), list.begin() + k, list.end(), better);
  list.resize(static_cast<std::size_t>(k));
}

// The fewest best candidates whose probabilities reach p; always one at least.
void keep_top_p(std::vector<Candidate>& list, float p, float top) {
  if (!(p < 1)) return;
  double total = 0, reached = 0;
  for (const Candidate& c : list) total += std::exp(static_cast<double>(c.logit - top));
  std::make_heap(list.begin(), list.end(), worse);
  auto end = list.end();
  do {
    std::pop_heap(list.begin(), end--, worse);
    reached += std::exp(static_cast<double>(end->logit - top));
  } while (end != list.begin() && reached < static_cast<double>(p) * total);
  list.erase(list.begin(), end);
}

// The candidates whose probability is at least min_p times the best one's.
void keep_min_p(std::vector<Candidate>& list, float min_p, float top) {
  if (!(min_p > 0)) return;
  const float bound = top + std::log(std::min(min_p, 1.0f));
  std::erase_if(list, [bound](const Candidate& c) { return c.logit < bound; });
}

std::int32_t draw(const std::vector<Candidate>& list, std::uint64_t stream) {
  constexpr double kLn2 = 0.6931471805599453;
  double best = -std::numeric_limits<double>::infinity();
  std::int32_t id = list.front().id;
  for (const Candidate& c : list) {
    const std::uint64_t bits = mix(stream + static_cast<std::uint64_t>(c.id));
    // n leading ones in u bound the noise by (n + 1) ln 2: most candidates are settled without a logarithm.
    if (static_cast<double>(c.logit) + (std::countl_one(bits) + 1) * kLn2 < best) continue;
    const double u = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
    const double value = static_cast<double>(c.logit) - std::log(-std::log(u));
    if (value > best || (value == best && c.id < id)) {
      best = value;
      id = c.id;
    }
  }
  return id;
}

std::int32_t sample_row(const float* logits, i64 vocab, const RowArgs& args) {
  float top = kNever;
  std::int32_t first = 0;
  for (std::int32_t id = 0; id < vocab; ++id) {
    const float logit = penalised(logits[id], id, args);
    if (logit > top) {
      top = logit;
      first = id;
    }
  }
  if (!(args.temperature > 0) || std::isinf(top)) return first;
  std::vector<Candidate> list = candidates(logits, vocab, args);
  for (Candidate& c : list) c.logit = (c.logit - top) / args.temperature;  // the best one is 0: nothing overflows
  std::erase_if(list, [](const Candidate& c) { return c.logit == kNever; });
  keep_top_k(list, args.top_k);
  keep_top_p(list, args.top_p, 0);
  keep_min_p(list, args.min_p, 0);
  return draw(list, mix(mix(static_cast<std::uint64_t>(args.seed)) + static_cast<std::uint64_t>(args.step)));
}

}  // namespace

void CpuBackend::run(const op::Sample& op) {
  const SampleArgs& args = op.args;
  const Rows in(op.logits);
  auto* id = op.ids.as<std::int32_t>();
  const auto* rows = static_cast<const RowSampling*>(args.rows.data());
  parallel(in.count, in.width * 4, [&](i64 begin, i64 end, int) {
    for (i64 i = begin; i < end; ++i) {
      const RowArgs row{rows[i],
                        args.seen.defined() ? args.seen.as<std::uint8_t>() + i * args.seen.stride(0) : nullptr};
      id[i] = sample_row(static_cast<const float*>(in.row(i)), in.width, row);
    }
  });
}

}  // namespace fathom
