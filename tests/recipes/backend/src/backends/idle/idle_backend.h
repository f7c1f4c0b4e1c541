// A device that takes every operation and does none.
#pragma once

#include "ops/backend.h"

namespace fathom {

class IdleBackend final : public Backend {
 public:
  std::string name() const override { return "idle"; }
  Device device() const override { return {}; }
  Storage allocate(std::size_t bytes) override { return host_storage(bytes); }
  void upload(const Tensor& y, const void* host) override;
  void download(void* host, const Tensor& x) override;
  void synchronize() override {}

#define FATHOM_IDLE(Op) \
  void run(const op::Op&) override {}
  FATHOM_OPERATIONS(FATHOM_IDLE)
#undef FATHOM_IDLE
};

}  // namespace fathom
