// The part of fathom bench that measures what a user gets: requests through the engine.
#pragma once

#include <span>

#include "engine/options.h"
#include "model/args.h"

namespace fathom {

// One call of the engine.
struct EngineStep {
  double seconds = 0;
  i64 tokens = 0;    // drawn in it
  bool all = false;  // every request decoded: all had their first token before it, and none had ended
};

struct DecodeSpeed {
  double seconds_per_step = 0, tokens_per_second = 0;
};
// What `batch` requests that decode together take for a token each, from the steps in which all did; zeros without any.
DecodeSpeed decode_speed(std::span<const EngineStep> steps, i64 batch);

struct EngineCase {
  i64 batch = 1;    // requests at once
  i64 context = 0;  // tokens of each prompt
  i64 steps = 0;    // tokens of each answer
  bool record = true;
};

// Random weights made on the device, one runner for all cases; prints a line a case.
void bench_engine(Backend& backend, ModelArgs args, const ComputeOptions& compute, std::span<const EngineCase> cases);

}  // namespace fathom
