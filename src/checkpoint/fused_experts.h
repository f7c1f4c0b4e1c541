// Experts of a layer in one tensor, as transformers saves them from release 5 on.
#pragma once

#include "checkpoint/file_checkpoint.h"

namespace fathom {

// If `stored` is "model.layers.N.mlp.experts.gate_up_proj" [experts, 2 * rows, columns] (of each expert the rows of
// gate_proj, then those of up_proj), "...down_proj" [experts, rows, columns] or the scales of one ("..._scale_inv"),
// adds the matrices of each expert under the names that they have elsewhere. False when it is another tensor; throws
// Error naming it when it cannot be divided so.
bool add_fused_experts(FileCheckpoint& checkpoint, const SafetensorsFile& file, const TensorInfo& stored);

}  // namespace fathom
