#include "base/hash.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <random>
#include <vector>

#include "base/check.h"
#include "base/hash_pair.h"

namespace fathom {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

std::string openssl_hex(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr);
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

TEST(ShaStream, EveryLengthAroundBlocks) {
  if (!has_sha_instructions()) GTEST_SKIP() << "no SHA instructions here";
  const Bytes bytes = random_bytes(300, 1);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const auto part = std::span(bytes).first(size);
    ShaStream stream;
    stream.update(part);
    EXPECT_EQ(stream.finish_hex(), openssl_hex(part)) << size;
  }
}

// One hash begins before, the other ends later, and all pieces lie oddly in memory and in the blocks of both.
TEST(Sha256, BothAtOnceInPiecesOfAnySize) {
  const Bytes bytes = random_bytes(200'000, 2);
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const auto all = std::span(bytes).subspan(random() % 100);
    const std::size_t before = random() % 200;
    Sha256 whole, part;
    whole.update(all.first(before));
    std::size_t at = before;
    for (std::size_t piece; at < all.size() / 2; at += piece) {
      piece = random() % (round % 2 == 0 ? 150 : 20'000);
      update_both(whole, part, all.subspan(at, piece));
    }
    EXPECT_EQ(part.hex(), openssl_hex(all.subspan(before, at - before)));
    whole.update(all.subspan(at));
    EXPECT_EQ(whole.hex(), openssl_hex(all));
  }
}

TEST(Hash, Sha1OfTheStandard) {
  Sha1 hash;
  for (const std::string_view part : {"a", "", "bc"}) hash.update(std::as_bytes(std::span(part)));
  EXPECT_EQ(hash.hex(), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

}  // namespace
}  // namespace fathom
