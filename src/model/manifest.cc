#include "model/manifest.h"

#include "model/mtp.h"

namespace fathom {

std::vector<ManifestEntry> manifest(const ModelArgs& args, int rank, int world_size, bool mtp) {
  CHECK(world_size >= 1 && rank >= 0 && rank < world_size, "rank {} of {} ranks", rank, world_size);
  const ComputeOptions options;
  WeightStore store(rank, world_size);
  const Params params(store, args, options);
  const Transformer model(params);
  if (mtp)
    for (i64 i = args.n_layers; i < args.n_layers + args.n_mtp_layers; ++i) MTP(params.sub("layers").sub(i), i);
  return store.entries();
}

}  // namespace fathom
