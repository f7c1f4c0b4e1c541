// Attention, rotation and the paged cache against double-precision loops: ragged sequences over scattered blocks,
// unused cache filled with NaN, unused block numbers absurd.
#include <fmt/format.h>

#include <limits>

#include "ops/operations.h"
#include "support/on_device.h"
#include "support/reference.h"

namespace fathom {
namespace {

using namespace test;

struct Sequence {
  i64 fresh, context;  // tokens of this pass, and cached tokens with them
};

// A batch of ragged sequences over a cache of scattered blocks.
struct Paged {
  i64 block_size, tokens = 0, total = 0;
  std::vector<Sequence> sequences;
  std::vector<i64> row_of_key;  // cache row of every cached token, sequence after sequence
  std::vector<std::vector<i64>> keys_of_token;
  HostTensor positions, slots, seq_starts, context_lens, context_starts, block_tables;
  i64 blocks = 0;

  static i64 sum(const std::vector<Sequence>& list, i64 Sequence::*field) {
    i64 total = 0;
    for (const Sequence& s : list) total += s.*field;
    return total;
  }

  Paged(std::vector<Sequence> list, i64 block, Random& random)
      : block_size(block),
        tokens(sum(list, &Sequence::fresh)),
        total(sum(list, &Sequence::context)),
        sequences(std::move(list)),
        positions({tokens}, DType::i32),
        slots({tokens}, DType::i32),
        seq_starts({count() + 1}, DType::i32),
        context_lens({count()}, DType::i32),
        context_starts({count() + 1}, DType::i32),
        block_tables({count(), longest() / block + 2}, DType::i32) {
    block_tables.fill([](i64) { return 2'000'000'000.0; });
    for (const Sequence& s : sequences) blocks += (s.context + block - 1) / block;
    std::vector<i64> free(at(blocks + 3));
    for (i64 i = 0; i < blocks + 3; ++i) free[at(i)] = i;
    std::shuffle(free.begin(), free.end(), random);
    blocks += 3;
    i64 token = 0, key = 0;
    for (i64 s = 0; s < count(); ++s) {
      const auto [fresh, context] = sequences[at(s)];
      for (i64 j = 0; j < context; ++j, ++key) {
        if (j % block == 0) {
          set(*block_tables, s * block_tables->stride(0) + j / block, static_cast<double>(free.back()));
          free.pop_back();
        }
        const i64 row =
            static_cast<i64>(get(*block_tables, s * block_tables->stride(0) + j / block)) * block + j % block;
        row_of_key.push_back(row);
        if (j < context - fresh) continue;
        set(*positions, token, static_cast<double>(j));
        set(*slots, token, static_cast<double>(row));
        keys_of_token.emplace_back(row_of_key.end() - (j + 1), row_of_key.end());
        ++token;
      }
      set(*seq_starts, s + 1, static_cast<double>(token));
      set(*context_lens, s, static_cast<double>(context));
      set(*context_starts, s + 1, static_cast<double>(key));
    }
  }

  i64 count() const { return static_cast<i64>(sequences.size()); }
  i64 longest() const {
    i64 most = 0;
    for (const Sequence& s : sequences) most = std::max(most, s.context);
    return most;
  }
  Sequences all() const {
    Sequences s;
    s.positions = *positions;
    s.slots = *slots;
    s.seq_starts = *seq_starts;
    s.context_lens = *context_lens;
    s.context_starts = *context_starts;
    s.block_tables = *block_tables;
    s.total_context = total;
    s.max_context = longest();
    return s;
  }

  // A cache with random rows where tokens are cached and NaN everywhere else.
  HostTensor cache(i64 width, DType type, Random& random) const {
    HostTensor latent({blocks, block_size, width}, type);
    latent.fill([](i64) { return std::numeric_limits<double>::quiet_NaN(); });
    std::normal_distribution<double> draw;
    for (const i64 row : row_of_key)
      for (i64 i = 0; i < width; ++i) set(*latent, row * width + i, draw(random));
    return latent;
  }
};

const std::vector<std::vector<Sequence>> kBatches = {
    {{1, 1}},
    {{1, 70}},
    {{1, 5}, {1, 64}, {1, 65}, {1, 200}},
    {{17, 17}, {1, 33}, {40, 90}},
    {{130, 130}},
    {{3, 300}, {0, 20}, {5, 5}},
    {{1, 1700}},
    {{70, 1300}, {1, 513}},
    {},
};

// Softmax weights carry the rounding of their scores; 64 roundings cover the widths used here.
constexpr double kSlack = 64;

TEST(AttendLatent, RaggedPagedSequences) {
  for_each_device([](OnDevice& backend) {
    Random random(1);
    for (const auto& list : kBatches)
      for (const DType act : {DType::f32, DType::bf16})
        for (const auto& [heads, c, r] : {std::array<i64, 3>{5, 40, 6}, {1, 512, 64}, {16, 64, 16}, {3, 33, 2}}) {
          SCOPED_TRACE(fmt::format("{} sequences {} H={} c={} r={}", list.size(), name_of(act), heads, c, r));
          const Paged paged(list, 16, random);
          if (paged.longest() > 1000 && c != 40) continue;  // long contexts once: the double-precision loops are slow
          const HostTensor latent = paged.cache(c + r, act, random);
          const HostTensor q_c = HostTensor({paged.tokens, heads, c}, act, 7).normal(random);
          const HostTensor q_pe = HostTensor({paged.tokens, heads, r}, act, 3).normal(random);
          const HostTensor o({paged.tokens, heads, c}, act);
          const double scale = 1 / std::sqrt(static_cast<double>(c + r));
          backend.run(op::AttendLatent{*o, *q_c, *q_pe, {*latent, c}, paged.all(), static_cast<float>(scale)});
          const std::vector<double> cache = values(*latent), qs = values(*q_c), ps = values(*q_pe);
          std::vector<Expected> expected;
          for (i64 t = 0; t < paged.tokens; ++t) {
            std::vector<double> keys;
            for (const i64 row : paged.keys_of_token[at(t)])
              keys.insert(keys.end(), cache.begin() + row * (c + r), cache.begin() + (row + 1) * (c + r));
            for (i64 h = 0; h < heads; ++h) {
              std::vector<double> q(qs.begin() + (t * heads + h) * c, qs.begin() + (t * heads + h + 1) * c);
              q.insert(q.end(), ps.begin() + (t * heads + h) * r, ps.begin() + (t * heads + h + 1) * r);
              const auto n = static_cast<i64>(keys.size()) / (c + r);
              const auto one =
                  attend(q.data(), keys.data(), keys.data(), n, c + r, c, c + r, c + r, static_cast<float>(scale));
              expected.insert(expected.end(), one.begin(), one.end());
            }
          }
          expect_close(o, expected, kSlack);
        }
  });
}

TEST(AttendLatent, LargeScoresAndOneKeyTakingAll) {
  for_each_device([](OnDevice& backend) {
    Random random(2);
    const Paged paged({{1, 150}}, 16, random);
    HostTensor latent = paged.cache(8 + 2, DType::f32, random);
    for (i64 i = 0; i < 10; ++i) set(*latent, paged.row_of_key[120] * 10 + i, 1e4);
    HostTensor q_c({1, 2, 8}, DType::f32), q_pe({1, 2, 2}, DType::f32), o({1, 2, 8}, DType::f32);
    q_c.fill([](i64) { return 100.0; });
    backend.run(op::AttendLatent{*o, *q_c, *q_pe, {*latent, 8}, paged.all(), 1.0f});
    for (const double value : values(*o)) EXPECT_EQ(value, 1e4);
  });
}

TEST(AttendLatent, PiecesEqualTheWhole) {
  for_each_device([](OnDevice& backend) {
    if (!backend.on_host()) return;  // a GPU cuts contexts by how many there are
    Random random(3);
    const i64 heads = 4, c = 64, r = 16, n = 1100;
    const Paged whole({{n, n}}, 16, random);
    const HostTensor latent = whole.cache(c + r, DType::f32, random);
    const HostTensor q_c = HostTensor({n, heads, c}, DType::f32).normal(random);
    const HostTensor q_pe = HostTensor({n, heads, r}, DType::f32).normal(random);
    const HostTensor expected({n, heads, c}, DType::f32);
    const CacheLayer cache{*latent, c};
    backend.run(op::AttendLatent{*expected, *q_c, *q_pe, cache, whole.all(), 0.1f});
    for (const i64 piece : {1, 64, 301}) {
      const HostTensor o({n, heads, c}, DType::f32);
      for (i64 t = 0; t < n; t += piece) {
        const i64 count = std::min(piece, n - t);
        Sequences part = whole.all();
        HostTensor starts({2}, DType::i32), lens({1}, DType::i32);
        set(*starts, 1, static_cast<double>(count));
        set(*lens, 0, static_cast<double>(t + count));
        part.positions = whole.positions->narrow(0, t, count);
        part.seq_starts = *starts;
        part.context_lens = *lens;
        part.max_context = part.total_context = t + count;
        backend.run(op::AttendLatent{o->narrow(0, t, count), q_c->narrow(0, t, count), q_pe->narrow(0, t, count), cache,
                                     part, 0.1f});
      }
      EXPECT_EQ(values(*o), values(*expected)) << piece;  // the same bits, whatever the company
    }
  });
}

TEST(AttendExpanded, RaggedSequences) {
  for_each_device([](OnDevice& backend) {
    Random random(4);
    for (const auto& list : kBatches)
      for (const DType act : {DType::f32, DType::bf16})
        for (const auto& [heads, nope, r, v] : {std::array<i64, 4>{3, 20, 6, 9}, {2, 128, 64, 128}, {5, 16, 8, 32}}) {
          SCOPED_TRACE(fmt::format("{} sequences {} nope={} r={} v={}", list.size(), name_of(act), nope, r, v));
          const Paged paged(list, 8, random);
          if (paged.longest() > 1000 && v != 9) continue;
          const HostTensor q = HostTensor({paged.tokens, heads, nope + r}, act, 5).normal(random);
          const HostTensor kv = HostTensor({paged.total, heads, nope + v}, act).normal(random);
          const HostTensor k_pe = HostTensor({paged.total, r}, act, 9).normal(random);
          const HostTensor o({paged.tokens, heads, v}, act);
          backend.run(op::AttendExpanded{*o, *q, *kv, *k_pe, paged.all(), 0.1f});
          const std::vector<double> qs = values(*q), kvs = values(*kv), pes = values(*k_pe);
          std::vector<Expected> expected;
          i64 t = 0, first = 0;
          for (const auto& [fresh, context] : paged.sequences) {
            for (i64 i = 0; i < fresh; ++i, ++t)
              for (i64 h = 0; h < heads; ++h) {
                const i64 n = context - fresh + i + 1;
                std::vector<double> keys, vals;
                for (i64 j = first; j < first + n; ++j) {
                  const auto row = kvs.begin() + (j * heads + h) * (nope + v);
                  keys.insert(keys.end(), row, row + nope);
                  keys.insert(keys.end(), pes.begin() + j * r, pes.begin() + (j + 1) * r);
                  vals.insert(vals.end(), row + nope, row + nope + v);
                }
                const auto one = attend(qs.data() + (t * heads + h) * (nope + r), keys.data(), vals.data(), n, nope + r,
                                        v, nope + r, v, static_cast<double>(0.1f));
                expected.insert(expected.end(), one.begin(), one.end());
              }
            first += context;
          }
          expect_close(o, expected, kSlack);
        }
  });
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Numbers [first, end) of x.
std::vector<double> part_of(const HostTensor& x, i64 first, i64 end) {
  const std::vector<double> all = values(*x);
  return {all.begin() + first, all.begin() + end};
}

// A sequence whose keys and queries are NaN, between two sound ones whose contexts end inside a tile of keys: these get
// the bits that they get beside a sound one. Widths of the kernels for published models, and others.
TEST(AttendLatent, NotFiniteSequencesStayAlone) {
  for_each_device([](OnDevice& backend) {
    for (const DType act : {DType::f32, DType::bf16})
      for (const auto& [heads, c, r] : {std::array<i64, 3>{3, 512, 64}, {2, 40, 6}}) {
        Random random(7);
        const Paged paged({{5, 70}, {6, 90}, {70, 70}}, 16, random);
        HostTensor latent = paged.cache(c + r, act, random);
        HostTensor q_c = HostTensor({paged.tokens, heads, c}, act).normal(random);
        HostTensor q_pe = HostTensor({paged.tokens, heads, r}, act).normal(random);
        std::vector<std::vector<double>> results;
        for (const bool poisoned : {false, true}) {
          if (poisoned) {
            for (i64 key = 70; key < 160; ++key)
              for (i64 i = 0; i < c + r; ++i) set(*latent, paged.row_of_key[at(key)] * (c + r) + i, kNaN);
            for (i64 i = 5 * heads * c; i < 11 * heads * c; ++i) set(*q_c, i, kNaN);
          }
          const HostTensor o({paged.tokens, heads, c}, act);
          backend.run(op::AttendLatent{*o, *q_c, *q_pe, {*latent, c}, paged.all(), 0.1f});
          results.push_back(part_of(o, 0, 5 * heads * c));
          results.push_back(part_of(o, 11 * heads * c, 81 * heads * c));
          EXPECT_EQ(std::isnan(get(*o, 6 * heads * c)), poisoned);
        }
        EXPECT_EQ(results[0], results[2]);
        EXPECT_EQ(results[1], results[3]);
      }
  });
}

TEST(AttendExpanded, NotFiniteSequencesStayAlone) {
  for_each_device([](OnDevice& backend) {
    for (const DType act : {DType::f32, DType::bf16})
      for (const auto& [heads, nope, r, v] : {std::array<i64, 4>{2, 128, 64, 128}, {3, 20, 6, 9}}) {
        Random random(8);
        const Paged paged({{66, 200}, {70, 90}, {130, 130}}, 16, random);
        const i64 width = nope + v;
        HostTensor q = HostTensor({paged.tokens, heads, nope + r}, act).normal(random);
        HostTensor kv = HostTensor({paged.total, heads, width}, act).normal(random);
        HostTensor k_pe = HostTensor({paged.total, r}, act).normal(random);
        std::vector<std::vector<double>> results;
        for (const bool poisoned : {false, true}) {
          if (poisoned) {
            for (i64 i = 200 * heads * width; i < 290 * heads * width; ++i) set(*kv, i, kNaN);
            for (i64 i = 200 * r; i < 290 * r; ++i) set(*k_pe, i, kNaN);
            for (i64 i = 66 * heads * (nope + r); i < 136 * heads * (nope + r); ++i) set(*q, i, kNaN);
          }
          const HostTensor o({paged.tokens, heads, v}, act);
          backend.run(op::AttendExpanded{*o, *q, *kv, *k_pe, paged.all(), 0.1f});
          results.push_back(part_of(o, 0, 66 * heads * v));
          results.push_back(part_of(o, 136 * heads * v, 266 * heads * v));
          EXPECT_EQ(std::isnan(get(*o, 70 * heads * v)), poisoned);
        }
        EXPECT_EQ(results[0], results[2]);
        EXPECT_EQ(results[1], results[3]);
      }
  });
}

// Tokens do not see later ones of their own sequence either (but for the kernel of prompts on Hopper).
TEST(AttendLatent, LaterTokensThatAreNotFiniteAreNotSeen) {
  for_each_device([](OnDevice& backend) {
    for (const DType act : {DType::f32, DType::bf16})
      for (const auto& [heads, c, r] : {std::array<i64, 3>{1, 512, 64}, {3, 40, 6}}) {
        Random random(9);
        const Paged paged({{90, 90}}, 16, random);
        HostTensor latent = paged.cache(c + r, act, random);
        const HostTensor q_c = HostTensor({90, heads, c}, act).normal(random);
        const HostTensor q_pe = HostTensor({90, heads, r}, act).normal(random);
        std::vector<std::vector<double>> results;
        for (const i64 sound : {90, 50}) {
          for (i64 key = sound; key < 90; ++key) set(*latent, paged.row_of_key[at(key)] * (c + r), kNaN);
          const HostTensor o({90, heads, c}, act);
          backend.run(op::AttendLatent{*o, *q_c, *q_pe, {*latent, c}, paged.all(), 0.1f});
          results.push_back(part_of(o, 0, 50 * heads * c));
          EXPECT_EQ(std::isnan(get(*o, 50 * heads * c)), sound == 50);
        }
        EXPECT_EQ(results[0], results[1]);
      }
  });
}

TEST(Cache, StoreSkipsNegativeSlotsAndGatherReadsBack) {
  for_each_device([](OnDevice& backend) {
    Random random(5);
    for (const DType act : {DType::f32, DType::bf16}) {
      const i64 c = 20, r = 6;
      Paged paged({{30, 30}, {0, 3}, {5, 5}}, 4, random);
      HostTensor latent = paged.cache(c + r, act, random);
      const std::vector<double> before = values(*latent);
      const HostTensor kv = HostTensor({paged.tokens, c}, act, 2).normal(random);
      const HostTensor k_pe = HostTensor({paged.tokens, r}, act, 20).normal(random);
      const i64 kept = static_cast<i64>(get(*paged.slots, 3));
      set(*paged.slots, 3, -1);
      backend.run(op::StoreLatent{{*latent, c}, *kv, *k_pe, *paged.slots});
      latent.expect_guards_intact();
      EXPECT_EQ(get(*latent, kept * (c + r)), before[at(kept * (c + r))]);
      set(*paged.slots, 3, static_cast<double>(kept));
      backend.run(op::StoreLatent{{*latent, c}, *kv, *k_pe, *paged.slots});
      const HostTensor y({paged.total, c + r}, act);
      backend.run(op::GatherLatent{*y, {*latent, c}, paged.all()});
      y.expect_guards_intact();
      for (i64 t = 0; t < 30; ++t)
        for (i64 i = 0; i < c + r; ++i)
          ASSERT_EQ(get(*y, t * (c + r) + i),
                    i < c ? get(*kv, t * kv->stride(0) + i) : get(*k_pe, t * k_pe->stride(0) + i - c));
      for (i64 i = 0; i < c; ++i) ASSERT_EQ(get(*y, 33 * (c + r) + i), get(*kv, 30 * kv->stride(0) + i));
    }
  });
}

TEST(Rope, NeighbouringPairsAsComplexNumbers) {
  for_each_device([](OnDevice& backend) {
    Random random(6);
    for (const DType act : {DType::f32, DType::bf16})
      for (const i64 r : {2, 6, 64}) {
        HostTensor freqs({5001, r / 2, 2}, DType::f32);
        freqs.fill([&](i64 i) {
          const double angle = static_cast<double>(i / r) * std::pow(1e4, -static_cast<double>(i % r / 2 * 2) / r);
          return i % 2 == 0 ? std::cos(angle) : std::sin(angle);
        });
        HostTensor positions({4}, DType::i32);
        positions.copy({0, 1, 5, 5000});
        HostTensor x = HostTensor({4, 3, r}, act, 10).normal(random);
        const std::vector<double> before = values(*x), angle = values(*freqs);
        backend.run(op::Rope{*x, *freqs, *positions});
        std::vector<Expected> expected(before.size());
        for (std::size_t i = 0; i < before.size(); i += 2) {
          const auto row = static_cast<i64>(i) / (3 * r), pair = static_cast<i64>(i) % r;
          const auto place = at(static_cast<i64>(get(*positions, row)) * r + pair);
          const double re = before[i], im = before[i + 1], size = std::fabs(re) + std::fabs(im);
          expected[i] = {re * angle[place] - im * angle[place + 1], size};
          expected[i + 1] = {re * angle[place + 1] + im * angle[place], size};
        }
        expect_close(x, expected, 4);
      }
  });
}

}  // namespace
}  // namespace fathom
