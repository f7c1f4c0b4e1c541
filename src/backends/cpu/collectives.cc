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

void CpuBackend::run(const op::AllReduce& op) {
  const auto& [x, comm] = op;
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
    kernels_.narrow(static_cast<std::byte*>(x.data()) + begin, type, sum.data(), n);
  }
}

void CpuBackend::run(const op::AllGather& op) {
  op.comm.exchange(bytes_of(op.x, 0, op.x.bytes()),
                   {static_cast<std::byte*>(op.y.data()), static_cast<std::size_t>(op.y.bytes())});
}

}  // namespace fathom
