// The scratch of passes on GPUs that need not be here: what kernels would be chosen decides it.
#include "engine/memory.h"

#include "backends/cuda/cuda_backend.h"
#include "support/planned_scratch.h"

namespace fathom::test {
namespace {

cuda::Device card(int capability, int multiprocessors, int shared_bytes) {
  cuda::Device device;
  device.capability = capability;
  device.multiprocessors = multiprocessors;
  device.shared_bytes = shared_bytes;
  device.multiprocessor_shared_bytes = shared_bytes + 1024;
  device.early = device.sm90a = capability == 90;
  return device;
}

TEST(CudaMemory, EveryPassIsInThePlan) {
  for (const cuda::Device& device : {card(90, 132, 232448), card(80, 108, 166912), card(89, 142, 101376)}) {
    const CudaBackend gpu(device);
    for (const ModelArgs& args : scratch_models())
      for (const GemmMode gemm : {GemmMode::bf16, GemmMode::fp8})
        for (const auto& [tokens, sequences] : {std::pair<i64, i64>{4096, 64}, {8192, 256}, {300, 8}}) {
          SCOPED_TRACE(fmt::format("capability {}, {} heads, passes of {} tokens of {} sequences", device.capability,
                                   args.n_heads, tokens, sequences));
          expect_passes_planned(
              gpu, args, {.limits = {.max_tokens = tokens, .max_sequences = sequences}, .compute = {.gemm = gemm}}, 60);
        }
  }
}

}  // namespace
}  // namespace fathom::test
