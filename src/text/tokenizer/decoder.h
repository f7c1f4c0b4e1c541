// The "decoder" of tokenizer.json: tokens back to text, one at a time or all at once by the same code.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

// One decoding under way: tokens in, text out as soon as it is certain. What comes out is whole characters.
class DecoderStream {
 public:
  using Sink = std::function<void(std::string_view)>;

  // One step of the chain. Behind the first step that fuses, what is pushed are parts of one long token.
  class Step {
   public:
    virtual ~Step() = default;
    virtual void push(std::string_view text, const Sink& next) = 0;
    virtual void finish(const Sink&) {}
  };

  explicit DecoderStream(std::vector<std::unique_ptr<Step>> steps) : steps_(std::move(steps)) {}
  // Appends to `out` what can be said now.
  void push(std::string_view token, std::string& out) { push_from(0, token, out); }
  // Appends what was held back; afterwards the stream is spent.
  void finish(std::string& out);

 private:
  void push_from(std::size_t step, std::string_view text, std::string& out);
  std::vector<std::unique_ptr<Step>> steps_;
};

// The description; immutable.
class Decoder {
 public:
  // From JSON null: tokens are joined by spaces. Throws Error naming an unknown type.
  explicit Decoder(const nlohmann::json& description);
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;
  ~Decoder();

  DecoderStream stream() const;
  // The bytes that one token stands for, by itself, in the middle of a text.
  std::string token_bytes(std::string_view token) const;

  struct Part;

 private:
  std::vector<std::unique_ptr<const Part>> parts_;
};

}  // namespace fathom
