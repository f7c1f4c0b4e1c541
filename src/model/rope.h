// Rotary embedding with YaRN. Reference: model.py, precompute_freqs_cis.
#pragma once

#include <vector>

#include "model/args.h"

namespace fathom {

// cos and sin of position * frequency: [max_seq_len, qk_rope_head_dim / 2, 2] float32, times rope_mscale.
std::vector<float> precompute_freqs_cis(const ModelArgs& args);

}  // namespace fathom
