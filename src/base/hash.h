// SHA-256 and SHA-1 of bytes, as lower-case hexadecimal text.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace fathom {

class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();
  void update(std::span<const std::byte> bytes);
  // The digest of all bytes so far; the object is spent.
  std::string hex();

 private:
  friend void update_both(Sha256& a, Sha256& b, std::span<const std::byte> bytes);
  struct State;
  std::unique_ptr<State> state_;
};

// Not safe against forgery: for names that others gave, such as git's.
class Sha1 {
 public:
  Sha1();
  ~Sha1();
  void update(std::span<const std::byte> bytes);
  // The digest of all bytes so far; the object is spent.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// a.update(bytes) and b.update(bytes), in less than the time of both where the processor has SHA instructions.
void update_both(Sha256& a, Sha256& b, std::span<const std::byte> bytes);

std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace fathom
