#include "base/hash.h"

#include <openssl/evp.h>

#include <optional>

#include "base/check.h"
#include "base/hash_pair.h"

namespace fathom {
namespace {

struct Context {
  EVP_MD_CTX* openssl = EVP_MD_CTX_new();
  Context() {
    CHECK(openssl != nullptr && EVP_DigestInit_ex(openssl, EVP_sha256(), nullptr) == 1, "SHA-256 is unavailable");
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(openssl); }
};

}  // namespace

// OpenSSL's, except where the processor lets two run in step.
struct Sha256::State {
  std::optional<Context> library;
  ShaStream own;
  State() {
    if (!has_sha_instructions()) library.emplace();
  }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  if (!state_->library) return state_->own.update(bytes);
  CHECK(EVP_DigestUpdate(state_->library->openssl, bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

std::string Sha256::hex() {
  if (!state_->library) return state_->own.finish_hex();
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  CHECK(EVP_DigestFinal_ex(state_->library->openssl, digest, &length) == 1, "SHA-256 failed");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

void update_both(Sha256& a, Sha256& b, std::span<const std::byte> bytes) {
  if (!a.state_->library && !b.state_->library) return update_both(a.state_->own, b.state_->own, bytes);
  a.update(bytes);
  b.update(bytes);
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace fathom
