#include "ops/trace.h"

#include <utility>

namespace fathom {

void TraceBackend::note(const char* name, std::span<const Tensor> operands) {
  ++calls_;
  if (!in_pass_) return;
  std::string line = name;
  for (const Tensor& x : operands)
    line += fmt::format(" {}{}@{}", name_of(x.dtype()), to_string(x.shape()), fmt::ptr(x.data()));
  log_.push_back(std::move(line));
}

void TraceBackend::forbid(const char* what) const {
  CHECK(!in_pass_, "a pass must only enqueue, this one tried to {} after {}", what,
        log_.empty() ? "nothing" : log_.back());
}

void TraceBackend::begin_pass() {
  forbid("begin another pass");
  in_pass_ = true;
  log_.clear();
}

std::vector<std::string> TraceBackend::end_pass() {
  in_pass_ = false;
  return std::exchange(log_, {});
}

std::string TraceBackend::name() const { return inner_ != nullptr ? "trace of " + inner_->name() : "trace"; }
Device TraceBackend::device() const { return inner_ != nullptr ? inner_->device() : Device{}; }

Storage TraceBackend::allocate(std::size_t bytes) {
  forbid("allocate memory");
  if (inner_ != nullptr) return inner_->allocate(bytes);
  return Storage(reinterpret_cast<void*>(Arena::kAlignment), bytes, device(), [](void*) {});  // never touched
}

void TraceBackend::upload(const Tensor& y, const void* host) {
  forbid("upload");
  if (inner_ != nullptr) inner_->upload(y, host);
}

void TraceBackend::download(void* host, const Tensor& x) {
  forbid("download");
  if (inner_ != nullptr) inner_->download(host, x);
}

void TraceBackend::synchronize() {
  forbid("wait for the device");
  if (inner_ != nullptr) inner_->synchronize();
}

std::optional<DeviceMemory> TraceBackend::memory() const { return inner_ != nullptr ? inner_->memory() : std::nullopt; }

std::unique_ptr<Graph> TraceBackend::capture(const std::function<void()>& pass) {
  forbid("capture a pass");
  return inner_ != nullptr ? inner_->capture(pass) : nullptr;
}

}  // namespace fathom
