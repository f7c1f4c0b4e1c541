#include "text/tokenizer/decoder.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/decoder_steps.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/split_behavior.h"
#include "text/unicode/utf8.h"

namespace fathom {

using Step = DecoderStream::Step;
using Sink = DecoderStream::Sink;

// One described decoder: makes the step for a stream, and says what it does to the bytes of a single token.
struct Decoder::Part {
  virtual ~Part() = default;
  // `fused`: the step gets parts of one long token.
  virtual std::unique_ptr<Step> step(bool fused) const = 0;
  virtual bool fuses() const { return false; }
  virtual void to_bytes(std::string&) const {}
};

namespace {

constexpr const char* kRole = "decoder";

struct ByteLevelPart : Decoder::Part {
  std::unique_ptr<Step> step(bool fused) const override { return in_mode(make_byte_level_step(), fused); }
  bool fuses() const override { return true; }
  void to_bytes(std::string& token) const override {
    std::string bytes;
    if (append_bytes_of_chars(bytes, token)) token = std::move(bytes);
  }
};

struct ByteFallbackPart : Decoder::Part {
  std::unique_ptr<Step> step(bool fused) const override { return in_mode(make_byte_fallback_step(), fused); }
  void to_bytes(std::string& token) const override {
    if (const int byte = fallback_byte(token); byte >= 0) token = std::string(1, static_cast<char>(byte));
  }
};

struct FusePart : Decoder::Part {
  std::unique_ptr<Step> step(bool) const override { return make_fuse_step(); }
  bool fuses() const override { return true; }
};

struct ReplacePart : Decoder::Part {
  explicit ReplacePart(const nlohmann::json& object)
      : pattern(json_pattern(object, kRole)), content(json_string(object, kRole, "content")) {}
  std::unique_ptr<Step> step(bool fused) const override {
    if (fused && pattern.is_literal()) return make_literal_replace_step(pattern.pattern(), content);
    return in_mode(make_replace_step(pattern, content), fused);
  }
  void to_bytes(std::string& token) const override {
    if (!is_valid_utf8(token)) return;
    std::string out;
    make_replace_step(pattern, content)->push(token, [&](std::string_view text) { out += text; });
    token = std::move(out);
  }
  Regex pattern;
  std::string content;
};

struct StripPart : Decoder::Part {
  explicit StripPart(const nlohmann::json& object)
      : start(json_count(object, kRole, "start")), stop(json_count(object, kRole, "stop")) {
    append_utf8(content, json_char(object, kRole, "content"));
  }
  std::unique_ptr<Step> step(bool fused) const override { return make_strip_step(content, start, stop, fused); }
  std::string content;
  long start, stop;
};

struct MetaspacePart : Decoder::Part {
  explicit MetaspacePart(const nlohmann::json& object)
      : drop_first(read_prepend_scheme(object, kRole) != PrependScheme::kNever) {
    append_utf8(replacement, json_char(object, kRole, "replacement"));
  }
  std::unique_ptr<Step> step(bool fused) const override { return make_metaspace_step(replacement, drop_first, fused); }
  void to_bytes(std::string& token) const override {
    std::string out;
    const auto step = make_metaspace_step(replacement, false, false);
    step->push(token, [&](std::string_view text) { out += text; });
    token = std::move(out);
  }
  std::string replacement;
  bool drop_first;
};

struct JoinPart : Decoder::Part {
  std::unique_ptr<Step> step(bool) const override { return make_join_step(); }
};

void add(const nlohmann::json& description, int depth, std::vector<std::unique_ptr<const Decoder::Part>>& parts) {
  CHECK(depth <= kMaxNesting, "tokenizer.json: decoders are nested more than {} deep", kMaxNesting);
  const std::string type = json_type(description, kRole);
  if (type == "Sequence") {
    for (const auto& part : json_array(description, kRole, "decoders")) add(part, depth + 1, parts);
  } else if (type == "ByteLevel") {
    parts.push_back(std::make_unique<ByteLevelPart>());
  } else if (type == "ByteFallback") {
    parts.push_back(std::make_unique<ByteFallbackPart>());
  } else if (type == "Fuse") {
    parts.push_back(std::make_unique<FusePart>());
  } else if (type == "Replace") {
    parts.push_back(std::make_unique<ReplacePart>(description));
  } else if (type == "Strip") {
    parts.push_back(std::make_unique<StripPart>(description));
  } else if (type == "Metaspace") {
    parts.push_back(std::make_unique<MetaspacePart>(description));
  } else {
    fail("tokenizer.json: unknown decoder \"{}\"", type);
  }
}

}  // namespace

Decoder::Decoder(const nlohmann::json& description) {
  if (description.is_null())
    parts_.push_back(std::make_unique<JoinPart>());
  else
    add(description, 0, parts_);
}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

DecoderStream Decoder::stream() const {
  std::vector<std::unique_ptr<Step>> steps;
  bool fused = false;
  for (const auto& part : parts_) {
    steps.push_back(part->step(fused));
    fused = fused || part->fuses();
  }
  return DecoderStream(std::move(steps));
}

std::string Decoder::token_bytes(std::string_view token) const {
  std::string bytes(token);
  for (const auto& part : parts_) part->to_bytes(bytes);
  return bytes;
}

void DecoderStream::push_from(std::size_t step, std::string_view text, std::string& out) {
  if (step == steps_.size())
    out += text;
  else
    steps_[step]->push(text, [&, step](std::string_view made) { push_from(step + 1, made, out); });
}

void DecoderStream::finish(std::string& out) {
  for (std::size_t step = 0; step < steps_.size(); ++step)
    steps_[step]->finish([&, step](std::string_view made) { push_from(step + 1, made, out); });
}

}  // namespace fathom
