#include "session/text_of_model.h"

#include "text/tokenizer/byte_tokenizer.h"

namespace fathom {

Tokenizer load_tokenizer(const ModelSource& source) {
  if (!source.directory.empty()) return Tokenizer::load(source.directory);
  CHECK(source.args.vocab_size >= byte_tokenizer_size(),
        "{} has no tokenizer, and its vocabulary of {} is too small for one of bytes, which needs {}",
        source.checkpoint->description(), source.args.vocab_size, byte_tokenizer_size());
  const auto& eos = source.args.eos_token_ids;
  const ByteTokenizerIds ids{.bos = static_cast<TokenId>(source.args.bos_token_id),
                             .eos = eos.empty() ? -1 : static_cast<TokenId>(eos.front())};
  return Tokenizer::parse(byte_tokenizer_json(ids), byte_tokenizer_config_json(source.args.max_seq_len));
}

ChatTemplate load_chat_template(const ModelSource& source, const std::filesystem::path& file) {
  if (!file.empty()) return ChatTemplate::load_file(file, source.directory);
  if (!source.directory.empty()) return ChatTemplate::load(source.directory);
  return ChatTemplate::parse(byte_tokenizer_template(), std::string(kByteTokenizerBos), std::string(kByteTokenizerEos));
}

}  // namespace fathom
