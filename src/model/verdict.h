// The verdict on a checkpoint: whether its tensors are those that a model asks for. All commands ask here, so that they
// cannot disagree.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/args.h"

namespace fathom {

// Tensors bear the names that the files have, or should have.
struct Verdict {
  std::vector<std::string> missing;     // names, with what is there instead where that is known
  std::vector<std::string> mismatched;  // "NAME is bf16 [2, 3], the configuration says bf16 [3, 3]"
  std::vector<std::string> strays;      // names that the model does not have
  std::vector<std::string> derived;     // buffers that follow from the configuration and are made anew
};

// `mtp`: the multi-token-prediction layers must be whole; else they may be anything.
Verdict judge(const ModelArgs& args, const Checkpoint& checkpoint, bool mtp, int rank = 0);

// Throws Error with one line for the worst fault: missing, mismatched, then stray tensors, of which the first three are
// named. `ignore_unused` lets the last pass. `source`: what the verdict is on.
void require_sound(const Verdict& verdict, const std::string& source, bool ignore_unused);

// "MTP layers 61, 62"; empty without such layers.
std::string mtp_layers_text(const ModelArgs& args);

}  // namespace fathom
