// A model's tokenizer, compiled from its tokenizer.json: text to ids and back.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "text/tokenizer/decoder.h"

namespace fathom {

// Immutable once made; may be used by many threads at once.
class Tokenizer {
 public:
  // Reads tokenizer.json, or tiktoken.model where there is none, and tokenizer_config.json if it is there. Throws Error
  // naming what is unknown or wrong.
  static Tokenizer load(const std::filesystem::path& model_dir);
  static Tokenizer parse(std::string_view tokenizer_json, std::string_view tokenizer_config_json = {});
  // From the text of a tiktoken vocabulary; `code` is that of the model's own tokenizer program, empty without one.
  static Tokenizer parse_tiktoken(std::string_view model, std::string_view tokenizer_config_json,
                                  std::string_view code = {});
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Whether the text of an added token (special or not) inside a text becomes its id or is text like any other.
  enum class AddedTokens { recognise, ignore };

  // The ids of a text, without BOS or EOS. Bytes that are not UTF-8 count as U+FFFD.
  std::vector<TokenId> encode(std::string_view text, AddedTokens mode = AddedTokens::recognise) const;
  // The same with exactly one BOS in front where the model's files ask for one.
  std::vector<TokenId> encode_with_bos(std::string_view text) const;
  // The same within the special tokens of the post-processor's template.
  std::vector<TokenId> encode_with_template(std::string_view text) const;

  // The text of ids; ids outside the vocabulary stand for nothing.
  std::string decode(std::span<const TokenId> ids, bool skip_special = true) const;
  // A decoding that takes one token after another; push() of StreamDecoder uses it.
  DecoderStream decoder_stream() const;
  // The token that an id gives to the decoder: null outside the vocabulary, and for special tokens that are skipped.
  std::optional<std::string> decoder_token(TokenId id, bool skip_special) const;

  // The token as the vocabulary has it; empty beyond it.
  std::string token_text(TokenId id) const;
  // The raw bytes that a token stands for; empty beyond the vocabulary.
  std::string token_bytes(TokenId id) const;
  // The largest id and one, added tokens included.
  int vocab_size() const;
  std::optional<TokenId> token_id(std::string_view token) const;
  bool is_special(TokenId id) const;

  std::optional<TokenId> bos_id() const;
  std::optional<TokenId> eos_id() const;
  std::optional<TokenId> pad_id() const;
  // The texts of tokenizer_config.json; empty where it names none.
  const std::string& bos_token() const;
  const std::string& eos_token() const;
  const std::string& pad_token() const;
  const std::string& unk_token() const;
  // What the files ask for around a text.
  bool adds_bos() const;
  bool adds_eos() const;

  // One token of a text and where it came from, for `fathom tokenize --explain`.
  struct Explained {
    std::string piece;  // what the pre-tokenizer cut out, after normalisation
    std::vector<TokenId> ids;
    bool added = false;  // an added token
    std::string rule;    // what cut it out: "added token", the step of the pre-tokenizer, or "uncut"
  };
  std::vector<Explained> explain(std::string_view text, AddedTokens mode = AddedTokens::recognise) const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace fathom
