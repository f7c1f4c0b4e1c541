#include "model/manifest.h"

#include "model/mtp.h"

namespace fathom {

Shape ManifestEntry::shape() const {
  Shape part = full.shape;
  if (slice.dim >= 0) part[slice.dim] = slice.length;
  return part;
}

std::vector<ManifestEntry> manifest(const ModelArgs& args, int rank, int world_size, bool mtp,
                                    const Checkpoint* stored) {
  CHECK(world_size >= 1 && rank >= 0 && rank < world_size, "rank {} of {} ranks", rank, world_size);
  const ComputeOptions options;
  WeightStore store(rank, world_size, stored);
  const Params params(store, args, options);
  const Transformer model(params);
  if (mtp)
    for (i64 i = args.n_layers; i < args.n_layers + args.n_mtp_layers; ++i) MTP(params.sub("layers").sub(i), i);
  return store.entries();
}

}  // namespace fathom
