#include "text/tokenizer/decoder_steps.h"

#include <algorithm>

#include "text/tokenizer/byte_level.h"
#include "text/unicode/classes.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

using Step = DecoderStream::Step;
using Sink = DecoderStream::Sink;

// Tokens to bytes to characters; invalid bytes become U+FFFD as soon as nothing can mend them.
class ByteLevelStep : public Step {
 public:
  void push(std::string_view token, const Sink& next) override {
    if (!append_bytes_of_chars(pending_, token)) pending_ += token;
    drain(false, next);
  }
  void finish(const Sink& next) override { drain(true, next); }

 private:
  void drain(bool all, const Sink& next) {
    std::string_view rest = pending_;
    while (!rest.empty()) {
      const std::size_t valid = valid_utf8_prefix(rest);
      if (valid > 0) next(rest.substr(0, valid));
      rest.remove_prefix(valid);
      if (rest.empty()) break;
      bool incomplete = false;
      const std::size_t bad = ill_formed_length(rest.substr(0, 4), incomplete);
      if (incomplete && !all) break;
      next(kReplacement);
      rest.remove_prefix(bad);
    }
    pending_.erase(0, pending_.size() - rest.size());
  }
  std::string pending_;
};

// A run of byte tokens is text if it is valid as a whole, else as many U+FFFD as bytes: known only at its end.
class ByteFallbackStep : public Step {
 public:
  void push(std::string_view token, const Sink& next) override {
    if (const int byte = fallback_byte(token); byte >= 0) {
      bytes_ += static_cast<char>(byte);
    } else {
      finish(next);
      next(token);
    }
  }
  void finish(const Sink& next) override {
    if (bytes_.empty()) return;
    if (is_valid_utf8(bytes_)) {
      next(bytes_);
    } else {
      for (std::size_t i = 0; i < bytes_.size(); ++i) next(kReplacement);
    }
    bytes_.clear();
  }

 private:
  std::string bytes_;
};

class FuseStep : public Step {
 public:
  void push(std::string_view text, const Sink& next) override { next(text); }
};

class ReplaceStep : public Step {
 public:
  ReplaceStep(const Regex& pattern, std::string content) : pattern_(pattern), content_(std::move(content)) {}
  void push(std::string_view token, const Sink& next) override {
    std::string out;
    Regex::Matcher matcher(pattern_, has_recent_characters(token));
    matcher.start(token);
    std::size_t from = 0;
    while (const auto match = matcher.next()) {
      out += token.substr(from, match->begin - from);
      out += content_;
      from = match->end;
    }
    out += token.substr(from);
    next(out);
  }

 private:
  const Regex& pattern_;
  std::string content_;
};

// Holds back the end of what came so far where it could be the beginning of the literal.
class LiteralReplaceStep : public Step {
 public:
  LiteralReplaceStep(std::string literal, std::string content)
      : literal_(std::move(literal)), content_(std::move(content)) {}
  void push(std::string_view text, const Sink& next) override {
    held_ += text;
    std::string out;
    std::size_t from = 0;
    for (std::size_t at; (at = held_.find(literal_, from)) != std::string::npos; from = at + literal_.size()) {
      out.append(held_, from, at - from);
      out += content_;
    }
    std::size_t keep = std::min(literal_.size() - 1, held_.size() - from);
    while (keep > 0 && held_.compare(held_.size() - keep, keep, literal_, 0, keep) != 0) --keep;
    out.append(held_, from, held_.size() - keep - from);
    held_.erase(0, held_.size() - keep);
    if (!out.empty()) next(out);
  }
  void finish(const Sink& next) override {
    if (!held_.empty()) next(held_);
  }

 private:
  std::string literal_, content_, held_;
};

class JoinStep : public Step {
 public:
  void push(std::string_view token, const Sink& next) override {
    if (!first_) next(" ");
    first_ = false;
    next(token);
  }

 private:
  bool first_ = true;
};

// Feeds a step that needs whole tokens with the one long token, at the end.
class GatherStep : public Step {
 public:
  explicit GatherStep(std::unique_ptr<Step> step) : step_(std::move(step)) {}
  void push(std::string_view text, const Sink&) override { text_ += text; }
  void finish(const Sink& next) override {
    step_->push(text_, next);
    step_->finish(next);
  }

 private:
  std::unique_ptr<Step> step_;
  std::string text_;
};

// Cuts up to `start` characters `content` from the front and up to `stop` from the back.
class StripStep : public Step {
 public:
  StripStep(std::string content, long start, long stop, bool fused)
      : content_(std::move(content)), start_(start), stop_(stop), fused_(fused) {}
  void push(std::string_view text, const Sink& next) override {
    if (!fused_) cut_ = held_ = 0;
    std::string out;
    while (cut_ < start_ && text.starts_with(content_)) text.remove_prefix(content_.size()), ++cut_;
    if (!text.empty()) cut_ = start_;
    // Trailing characters wait: they are cut if nothing follows.
    std::size_t body = text.size();
    long trailing = 0;
    while (trailing < stop_ && text.substr(0, body).ends_with(content_)) body -= content_.size(), ++trailing;
    if (body > 0 || trailing == stop_)
      release(held_, out);
    else
      release(std::max(0L, held_ + trailing - stop_), out);
    out += text.substr(0, body);
    held_ += trailing;
    if (!out.empty() || !fused_) next(out);
  }

 private:
  void release(long count, std::string& out) {
    for (long i = 0; i < count; ++i) out += content_;
    held_ -= count;
  }
  std::string content_;
  long start_, stop_, cut_ = 0, held_ = 0;
  bool fused_;
};

// The sign for a space becomes one; in the first token, where one was put in front, it is dropped.
class MetaspaceStep : public Step {
 public:
  MetaspaceStep(std::string replacement, bool drop_first, bool fused)
      : replacement_(std::move(replacement)), drop_(drop_first), fused_(fused) {}
  void push(std::string_view text, const Sink& next) override {
    std::string out;
    std::size_t from = 0;
    for (std::size_t at; (at = text.find(replacement_, from)) != std::string_view::npos;) {
      out += text.substr(from, at - from);
      if (!drop_) out += ' ';
      from = at + replacement_.size();
    }
    out += text.substr(from);
    if (!fused_) drop_ = false;
    next(out);
  }

 private:
  std::string replacement_;
  bool drop_, fused_;
};

}  // namespace

int fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

std::unique_ptr<Step> make_byte_level_step() { return std::make_unique<ByteLevelStep>(); }
std::unique_ptr<Step> make_byte_fallback_step() { return std::make_unique<ByteFallbackStep>(); }
std::unique_ptr<Step> make_fuse_step() { return std::make_unique<FuseStep>(); }
std::unique_ptr<Step> make_join_step() { return std::make_unique<JoinStep>(); }

std::unique_ptr<Step> make_replace_step(const Regex& pattern, std::string content) {
  return std::make_unique<ReplaceStep>(pattern, std::move(content));
}

std::unique_ptr<Step> in_mode(std::unique_ptr<Step> step, bool fused) {
  if (!fused) return step;
  return std::make_unique<GatherStep>(std::move(step));
}

std::unique_ptr<Step> make_literal_replace_step(std::string literal, std::string content) {
  return std::make_unique<LiteralReplaceStep>(std::move(literal), std::move(content));
}

std::unique_ptr<Step> make_strip_step(std::string content, long start, long stop, bool fused) {
  return std::make_unique<StripStep>(std::move(content), start, stop, fused);
}

std::unique_ptr<Step> make_metaspace_step(std::string replacement, bool drop_first, bool fused) {
  return std::make_unique<MetaspaceStep>(std::move(replacement), drop_first, fused);
}

}  // namespace fathom
