// The steps that decoders are made of.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer/decoder.h"
#include "text/tokenizer/regex.h"

namespace fathom {

// The byte of a token <0xXX>, or -1.
int fallback_byte(std::string_view token);

// These expect whole tokens.
std::unique_ptr<DecoderStream::Step> make_byte_level_step();
std::unique_ptr<DecoderStream::Step> make_byte_fallback_step();
std::unique_ptr<DecoderStream::Step> make_fuse_step();
// The pattern must outlive the step.
std::unique_ptr<DecoderStream::Step> make_replace_step(const Regex& pattern, std::string content);
std::unique_ptr<DecoderStream::Step> make_join_step();

// For parts of one long token: gathers them where `fused`, for steps that must see the whole.
std::unique_ptr<DecoderStream::Step> in_mode(std::unique_ptr<DecoderStream::Step> step, bool fused);

// This expects parts of one long token.
std::unique_ptr<DecoderStream::Step> make_literal_replace_step(std::string literal, std::string content);

// These know both.
std::unique_ptr<DecoderStream::Step> make_strip_step(std::string content, long start, long stop, bool fused);
std::unique_ptr<DecoderStream::Step> make_metaspace_step(std::string replacement, bool drop_first, bool fused);

}  // namespace fathom
