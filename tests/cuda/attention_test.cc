// Rotation, cache and attention: GPU against CPU over ragged paged batches, unused cache full of NaN.
#include <limits>
#include <numeric>

#include "cuda/twin.h"

namespace fathom::test {
namespace {

struct Seq {
  i64 cached, fresh;  // tokens in the cache before the pass, tokens of the pass
};

// The int32 tensors of a batch on both sides, blocks scattered over the cache.
class Pages {
 public:
  Pages(Backend& gpu, Random& random, const std::vector<Seq>& seqs, i64 padding = 0) {
    std::vector<int> starts{0}, lens, context{0}, positions, slots;
    i64 longest = 1;
    for (const Seq& s : seqs) longest = std::max(longest, (s.cached + s.fresh + kBlock - 1) / kBlock);
    const auto n = static_cast<i64>(seqs.size());
    blocks = n * longest + 3;
    std::vector<int> order(static_cast<std::size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<int> tables;
    for (std::size_t s = 0; s < seqs.size(); ++s) {
      const i64 total = seqs[s].cached + seqs[s].fresh;
      for (i64 b = 0; b < longest; ++b)  // unused entries are never read
        tables.push_back(b * kBlock < total ? order[s * static_cast<std::size_t>(longest) + static_cast<std::size_t>(b)]
                                            : 1 << 30);
      for (i64 i = 0; i < total; ++i) {
        const int slot = tables[s * static_cast<std::size_t>(longest) + static_cast<std::size_t>(i / kBlock)] * kBlock +
                         static_cast<int>(i % kBlock);
        used.push_back(slot);
        if (i < seqs[s].cached) continue;
        positions.push_back(static_cast<int>(i));
        slots.push_back(slot);
      }
      starts.push_back(static_cast<int>(positions.size()));
      lens.push_back(static_cast<int>(total));
      context.push_back(context.back() + static_cast<int>(total));
    }
    for (i64 i = 0; i < padding; ++i) {
      positions.push_back(0);
      slots.push_back(-1);
    }
    const auto twin = [&](const std::vector<int>& values, const Shape& shape) {
      twins_.push_back(std::make_unique<Twin>(gpu, shape, DType::i32));
      twins_.back()->fill([&](i64 i) { return values[static_cast<std::size_t>(i)]; });
      return twins_.back().get();
    };
    const auto t = static_cast<i64>(positions.size());
    const Twin *p = twin(positions, {t}), *sl = twin(slots, {t}), *st = twin(starts, {n + 1}), *le = twin(lens, {n}),
               *co = twin(context, {n + 1}), *ta = twin(tables, {n, longest});
    for (const bool on_gpu : {false, true}) {
      const auto side = [&](const Twin* x) { return on_gpu ? x->device : x->host; };
      Sequences& all = on_gpu ? device : host;
      all = {side(p), side(sl), side(st), side(le), side(co), side(ta)};
      all.total_context = context.back();
      all.max_context = lens.empty() ? 0 : *std::max_element(lens.begin(), lens.end());
    }
  }

  static constexpr i64 kBlock = 16;
  Sequences host, device;
  i64 blocks = 0;
  std::vector<int> used;

 private:
  std::vector<std::unique_ptr<Twin>> twins_;
};

const std::vector<std::vector<Seq>> kBatches = {
    {},
    {{0, 1}},
    {{0, 0}, {0, 63}, {63, 1}, {64, 1}, {0, 65}},
    {{5, 3}, {0, 0}, {4095, 1}},
    {{128, 1}, {1000, 1}, {31, 1}, {700, 2}, {0, 4}},
    {{0, 300}, {200, 129}, {3, 128}, {511, 257}},
    {{1, 1}, {17, 1}, {33, 1}, {250, 1}, {64, 1}, {63, 1}, {62, 1}, {1023, 1}, {2, 1}},
};

class Attention : public CudaTest {
 protected:
  // A cache whose used rows are random and whose other rows are NaN.
  void fill_cache(Twin& cache, const Pages& pages) {
    const i64 width = cache.host.dim(2);
    std::vector<bool> used(static_cast<std::size_t>(pages.blocks * Pages::kBlock));
    for (const int slot : pages.used) used[static_cast<std::size_t>(slot)] = true;
    std::normal_distribution<double> draw;
    cache.fill([&](i64 i) {
      return used[static_cast<std::size_t>(i / width)] ? draw(random_) : std::numeric_limits<double>::quiet_NaN();
    });
  }
};

TEST_F(Attention, RopeAndStore) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto& seqs : kBatches) {
      const Pages pages(*gpu_, random_, seqs, 2);
      const i64 t = pages.host.positions.dim(0);
      Twin x(*gpu_, {t, 3, 64}, type, 16), freqs(*gpu_, {4200, 32, 2}, DType::f32);
      x.normal(random_);
      freqs.normal(random_);
      cpu_.run(op::Rope{x.host, freqs.host, pages.host.positions});
      gpu_->run(op::Rope{x.device, freqs.device, pages.device.positions});
      x.expect_same(2.02 * rounding_of(type), 4e-7 * 10);
      Twin cache(*gpu_, {pages.blocks, Pages::kBlock, 96}, type), kv(*gpu_, {t, 64}, type, 32),
          pe(*gpu_, {t, 32}, type, 64);
      kv.normal(random_), pe.normal(random_);
      cpu_.run(op::StoreLatent{{cache.host, 64}, kv.host, pe.host, pages.host.slots});
      gpu_->run(op::StoreLatent{{cache.device, 64}, kv.device, pe.device, pages.device.slots});
      cache.expect_equal();
    }
}

TEST_F(Attention, Latent) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const i64 heads : {1, 5, 16, 128})
      for (std::size_t b = 0; b < kBatches.size(); ++b) {
        if (heads == 128 && b != 4 && b != 1) continue;
        SCOPED_TRACE(fmt::format("{} heads {} batch {}", name_of(type), heads, b));
        const Pages pages(*gpu_, random_, kBatches[b], 1);
        const i64 t = pages.host.positions.dim(0), c = 512, r = 64;
        Twin cache(*gpu_, {pages.blocks, Pages::kBlock, c + r}, type), q(*gpu_, {t, heads, c}, type, 8),
            pe(*gpu_, {t, heads, r}, type, 128), o(*gpu_, {t, heads, c}, type);
        fill_cache(cache, pages);
        q.normal(random_), pe.normal(random_);
        cpu_.run(op::AttendLatent{o.host, q.host, pe.host, {cache.host, c}, pages.host, 0.06f});
        gpu_->run(op::AttendLatent{o.device, q.device, pe.device, {cache.device, c}, pages.device, 0.06f});
        o.expect_same(2.02 * rounding_of(type) + 1e-4, type == DType::f32 ? 3e-5 : 8e-3);
      }
}

TEST_F(Attention, LatentOddWidths) {
  const Pages pages(*gpu_, random_, kBatches[2]);
  const i64 t = pages.host.positions.dim(0);
  Twin cache(*gpu_, {pages.blocks, Pages::kBlock, 58}, DType::bf16), q(*gpu_, {t, 3, 48}, DType::bf16),
      pe(*gpu_, {t, 3, 10}, DType::bf16), o(*gpu_, {t, 3, 48}, DType::bf16);
  fill_cache(cache, pages);
  q.normal(random_), pe.normal(random_);
  cpu_.run(op::AttendLatent{o.host, q.host, pe.host, {cache.host, 48}, pages.host, 0.1f});
  gpu_->run(op::AttendLatent{o.device, q.device, pe.device, {cache.device, 48}, pages.device, 0.1f});
  o.expect_same(2.02 * rounding_of(DType::bf16) + 1e-4, 8e-3);
}

TEST_F(Attention, GatherAndExpanded) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const i64 heads : {1, 16})
      for (std::size_t b = 0; b < kBatches.size(); ++b) {
        SCOPED_TRACE(fmt::format("{} heads {} batch {}", name_of(type), heads, b));
        const Pages pages(*gpu_, random_, kBatches[b], 1);
        const i64 t = pages.host.positions.dim(0), total = pages.host.total_context;
        Twin cache(*gpu_, {pages.blocks, Pages::kBlock, 96}, type), rows(*gpu_, {total, 96}, type);
        fill_cache(cache, pages);
        cpu_.run(op::GatherLatent{rows.host, {cache.host, 64}, pages.host});
        gpu_->run(op::GatherLatent{rows.device, {cache.device, 64}, pages.device});
        rows.expect_equal();
        Twin q(*gpu_, {t, heads, 192}, type), kv(*gpu_, {total, heads, 256}, type), pe(*gpu_, {total, 64}, type, 512),
            o(*gpu_, {t, heads, 128}, type);
        q.normal(random_), kv.normal(random_), pe.normal(random_);
        cpu_.run(op::AttendExpanded{o.host, q.host, kv.host, pe.host, pages.host, 0.07f});
        for (Backend* gpu : both()) {
          o.poison();
          gpu->run(op::AttendExpanded{o.device, q.device, kv.device, pe.device, pages.device, 0.07f});
          gpu->synchronize();
          o.expect_same(2.02 * rounding_of(type) + 1e-4, type == DType::f32 ? 3e-5 : 8e-3);
        }
      }
}

}  // namespace
}  // namespace fathom::test
