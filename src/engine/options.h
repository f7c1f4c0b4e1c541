// What a runner is made for.
#pragma once

#include "engine/limits.h"
#include "ops/context.h"

namespace fathom {

struct RunnerOptions {
  Limits limits;
  bool map = false;        // on the CPU, weights stay where their files are mapped
  bool record = true;      // decode passes are recorded and replayed where the device can
  ComputeOptions compute;  // fixed for the runner's life
};

}  // namespace fathom
