// The part of fathom bench that measures what a user gets: requests through the engine.
#pragma once

#include "engine/options.h"
#include "model/args.h"

namespace fathom {

struct EngineCase {
  i64 batch = 1;    // requests at once
  i64 context = 0;  // tokens of each prompt
  i64 steps = 0;    // tokens of each answer
  bool record = true;
};

// Random weights made on the device, one runner for all cases; prints a line a case.
void bench_engine(Backend& backend, const ModelArgs& args, const ComputeOptions& compute,
                  std::span<const EngineCase> cases);

}  // namespace fathom
