// What ranks do together, by exchanging bytes piece by piece.
#include <algorithm>
#include <cstring>

#include "backends/cpu/act.h"
#include "backends/cpu/cpu_backend.h"

namespace fathom {
namespace {

constexpr i64 kPieceBytes = i64{1} << 20;

std::span<const std::byte> bytes_of(const Tensor& x, i64 begin, i64 end) {
  return {static_cast<const std::byte*>(x.data()) + begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

void CpuBackend::sum_over_ranks(const Tensor& x, Communicator& comm,
                                const std::function<void(i64 first, const float* sum, i64 n)>& take) {
  const i64 ranks = comm.size(), size = size_of(x.dtype()), piece = std::min(x.bytes(), kPieceBytes);
  const Element type = element_of(x.dtype());
  std::vector<std::byte> all(static_cast<std::size_t>(piece * ranks));
  std::vector<float> sum(static_cast<std::size_t>(piece / size)), part(sum.size());
  for (i64 begin = 0; begin < x.bytes(); begin += piece) {
    const i64 bytes = std::min(piece, x.bytes() - begin), n = bytes / size;
    comm.exchange(bytes_of(x, begin, begin + bytes), std::span(all).first(static_cast<std::size_t>(bytes * ranks)));
    kernels_.widen(sum.data(), all.data(), type, n);
    for (i64 r = 1; r < ranks; ++r) {
      kernels_.widen(part.data(), all.data() + r * bytes, type, n);
      kernels_.add(sum.data(), part.data(), n);
    }
    take(begin / size, sum.data(), n);
  }
}

void CpuBackend::run(const op::AllReduce& op) {
  auto* x = static_cast<std::byte*>(op.x.data());
  const Element type = element_of(op.x.dtype());
  sum_over_ranks(op.x, op.comm, [&](i64 first, const float* sum, i64 n) {
    kernels_.narrow(x + first * size_of(op.x.dtype()), type, sum, n);
  });
}

void CpuBackend::run(const op::AddReduced& op) {
  sum_over_ranks(op.y, op.comm,
                 [&](i64 first, const float* sum, i64 n) { kernels_.add(op.h.as<float>() + first, sum, n); });
}

void CpuBackend::run(const op::AllGather& op) {
  op.comm.exchange(bytes_of(op.x, 0, op.x.bytes()),
                   {static_cast<std::byte*>(op.y.data()), static_cast<std::size_t>(op.y.bytes())});
}

}  // namespace fathom
