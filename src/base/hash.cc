#include "base/hash.h"

#include <openssl/evp.h>

#include <optional>

#include "base/check.h"
#include "base/hash_pair.h"

namespace fathom {
namespace {

struct Context {
  EVP_MD_CTX* openssl = EVP_MD_CTX_new();
  explicit Context(const EVP_MD* kind) {
    CHECK(openssl != nullptr && EVP_DigestInit_ex(openssl, kind, nullptr) == 1, "OpenSSL has no such hash");
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(openssl); }

  void update(std::span<const std::byte> bytes) {
    CHECK(EVP_DigestUpdate(openssl, bytes.data(), bytes.size()) == 1, "hashing failed");
  }

  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    CHECK(EVP_DigestFinal_ex(openssl, digest, &length) == 1, "hashing failed");
    std::string text;
    for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }
};

}  // namespace

// OpenSSL's, except where the processor lets two run in step.
struct Sha256::State {
  std::optional<Context> library;
  ShaStream own;
  State() {
    if (!has_sha_instructions()) library.emplace(EVP_sha256());
  }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  if (!state_->library) return state_->own.update(bytes);
  state_->library->update(bytes);
}

std::string Sha256::hex() { return state_->library ? state_->library->hex() : state_->own.finish_hex(); }

struct Sha1::State {
  Context library{EVP_sha1()};
};

Sha1::Sha1() : state_(std::make_unique<State>()) {}
Sha1::~Sha1() = default;
void Sha1::update(std::span<const std::byte> bytes) { state_->library.update(bytes); }
std::string Sha1::hex() { return state_->library.hex(); }

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
