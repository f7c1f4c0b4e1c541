#include "backends/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "base/machine.h"

namespace fathom {
namespace {

// Handing a loop to the other threads costs a few microseconds.
constexpr i64 kWorthThreads = 20'000;  // nanoseconds of work

}  // namespace

CpuBackend::CpuBackend(int threads, Isa isa)
    : pool_(threads), kernels_(cpu_kernels(isa)), scratch_(static_cast<std::size_t>(pool_.size() + 1)) {}

Storage CpuBackend::allocate(std::size_t bytes) { return host_storage(bytes); }

std::optional<DeviceMemory> CpuBackend::memory() const {
  const auto memory = host_memory();
  if (!memory) return std::nullopt;
  return DeviceMemory{.device = memory->limit, .free = memory->free, .total = memory->total, .host = true};
}

void CpuBackend::upload(const Tensor& y, const void* host) {
  if (y.bytes() > 0) std::memcpy(y.data(), host, static_cast<std::size_t>(y.bytes()));
}

void CpuBackend::download(void* host, const Tensor& x) {
  if (x.bytes() > 0) std::memcpy(host, x.data(), static_cast<std::size_t>(x.bytes()));
}

void CpuBackend::parallel(i64 count, i64 work, const Body& body) {
  if (count <= 0) return;
  if (pool_.size() == 1 || count == 1 || count * work < kWorthThreads) return body(0, count, 0);
  const i64 pieces = std::min<i64>(pool_.size() * 4, std::max<i64>(count * work / (kWorthThreads / 4), 2));
  pool_.parallel_for(count, (count + pieces - 1) / pieces, body);
}

float* CpuBackend::scratch(int worker, i64 floats) {
  Storage& buffer = scratch_[static_cast<std::size_t>(worker + 1)];
  const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
  if (buffer.bytes() < bytes) buffer = host_storage(std::max(bytes, buffer.bytes() * 2));
  return static_cast<float*>(buffer.data());
}

std::unique_ptr<Backend> make_cpu_backend(int threads) { return std::make_unique<CpuBackend>(threads); }

}  // namespace fathom
