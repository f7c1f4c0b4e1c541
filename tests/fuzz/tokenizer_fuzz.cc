// libFuzzer: any bytes as tokenizer.json, up to a zero byte; what follows is encoded, decoded and streamed with it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/utf8.h"

namespace {

void require(bool good) {
  if (!good) __builtin_trap();
}

void use(const fathom::Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text);
  tokenizer.encode(text, fathom::Tokenizer::AddedTokens::ignore);
  tokenizer.encode_with_bos(text);
  const std::string whole = tokenizer.decode(ids);
  fathom::StreamDecoder stream(tokenizer);
  std::string joined;
  for (const int id : ids) {
    const std::string part = stream.push(id);
    require(fathom::is_valid_utf8(part));
    joined += part;
    tokenizer.token_bytes(id);
  }
  joined += stream.finish();
  require(joined == whole);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = input.find('\0');
  const std::string_view text =
      zero == std::string_view::npos ? " Hello\xF0\x9F\x98\x80 12 3\n" : input.substr(zero + 1);
  try {
    use(fathom::Tokenizer::parse(input.substr(0, zero)), text);
  } catch (const fathom::Error&) {
    // What is wrong is said; anything else that is thrown is a finding.
  }
  return 0;
}
