// What is asked of a device with a launch, without a GPU.
#include "kernels/cuda/launch.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace fathom::cuda {
namespace {

Stream stream(int capability, int shared_bytes, bool early) {
  Stream s;
  s.device.capability = capability;
  s.device.shared_bytes = shared_bytes;
  s.device.multiprocessor_shared_bytes = shared_bytes + 1024;
  s.device.early = early;
  return s;
}

std::string refusal(Stream& s, const Launch& launch) {
  Configuration c;
  try {
    configure(s, nullptr, launch, c);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, SaysWhatTheDeviceKnows) {
  Stream hopper = stream(90, 232448, true), ampere = stream(80, 166912, false);
  const Launch launch{.name = "some", .grid = 3, .block = 128, .shared = 4096, .early = true, .at_once = 8};
  Configuration c, d;
  configure(hopper, nullptr, launch, c);
  ASSERT_EQ(c.config.numAttrs, 2u);
  EXPECT_EQ(c.attributes[0].id, cudaLaunchAttributeProgrammaticStreamSerialization);
  EXPECT_EQ(c.attributes[0].val.programmaticStreamSerializationAllowed, 1);
  EXPECT_EQ(c.attributes[1].val.sharedMemCarveout, 18u);  // 8 x (4 + 1) of 228 KiB
  configure(ampere, nullptr, launch, d);
  ASSERT_EQ(d.config.numAttrs, 1u);
  EXPECT_EQ(d.attributes[0].id, cudaLaunchAttributePreferredSharedMemoryCarveout);
  EXPECT_EQ(d.attributes[0].val.sharedMemCarveout, 25u);  // of 164 KiB
  EXPECT_EQ(d.config.gridDim.x, 3u);
  EXPECT_EQ(d.config.dynamicSmemBytes, 4096u);
}

TEST(Launch, RefusesMoreThanADeviceHas) {
  Stream s = stream(86, kPortableShared, false);
  EXPECT_EQ(
      refusal(s, {"tiles", 1, 128, kPortableShared + 1}),
      "the kernel tiles needs 101377 bytes of shared memory a block, this device has 101376; it must not be chosen "
      "here");
  EXPECT_EQ(
      refusal(s, {"rows", dim3(1u << 31, 1, 1), 128}),
      "the kernel rows would need 2147483648 x 1 x 1 blocks, a GPU takes 2147483647 x 65535 x 65535 at most; passes "
      "of fewer tokens need fewer");
  EXPECT_EQ(refusal(s, {"rows", dim3((1u << 31) - 1, 65535, 65535), 128}), "");
  EXPECT_NE(refusal(s, {"rows", dim3(1, 65536, 1), 128}), "");
  EXPECT_NE(refusal(s, {"rows", dim3(1, 1, 65536), 128}), "");
}

}  // namespace
}  // namespace fathom::cuda
