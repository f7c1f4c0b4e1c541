#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/regex.h"

#include <pcre2.h>

#include <algorithm>

#include "base/check.h"
#include "text/unicode/utf8.h"

namespace fathom {

struct Regex::Code {
  explicit Code(const std::string& translated, std::string_view original) {
    int error = 0;
    PCRE2_SIZE at = 0;
    std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
        pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);  // as Oniguruma's ^, $ and .
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                         PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                         &at, context.get());
    if (code == nullptr) {
      PCRE2_UCHAR message[256] = {};
      pcre2_get_error_message(error, message, sizeof message);
      fail("cannot compile the regular expression {:?}: {}", original, reinterpret_cast<const char*>(message));
    }
    has_jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }

  pcre2_code* code = nullptr;
  bool has_jit = false;
};

bool is_script_name(std::string_view name) {
  const std::string pattern = fmt::format("\\p{{sc:{}}}", name);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &at, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

Regex::Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Regex::Regex(std::string_view pattern) : pattern_(pattern) {
  CHECK(is_valid_utf8(pattern), "a regular expression is not valid UTF-8");
  const std::string own = translate_oniguruma(pattern, true), plain = translate_oniguruma(pattern, false);
  code_ = std::make_unique<Code>(plain, pattern);
  if (own != plain) recent_ = std::make_unique<Code>(own, pattern);
}

Regex Regex::literal(std::string_view text) {
  if (text.empty()) return Regex("");
  Regex regex;
  regex.pattern_ = text;
  regex.literal_ = text;
  return regex;
}

struct Regex::Matcher::State {
  State() : data(pcre2_match_data_create(1, nullptr)), context(pcre2_match_context_create(nullptr)) {
    CHECK(data != nullptr && context != nullptr, "out of memory for a regular expression");
    // The interpreter runs only where the compiled form lacks stack; 256 MiB bound its memory.
    pcre2_set_heap_limit(context, 1u << 18);
  }
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
  const Code* code = nullptr;
};

Regex::Matcher::Matcher(const Regex& regex, bool recent) : regex_(regex) {
  if (regex.literal_) return;
  state_ = std::make_unique<State>();
  state_->code = recent && regex.recent_ ? regex.recent_.get() : regex.code_.get();
}

Regex::Matcher::~Matcher() = default;

void Regex::Matcher::start(std::string_view text) {
  text_ = text;
  from_ = 0;
  last_end_.reset();
  if (state_) {
    const std::size_t limit = std::max<std::size_t>(10'000'000, 100 * text.size());
    pcre2_set_match_limit(state_->context, static_cast<std::uint32_t>(std::min<std::size_t>(limit, 2'000'000'000)));
  }
}

std::optional<Span> Regex::Matcher::search(std::size_t from) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.empty() ? "" : text_.data());
  const Code& code = *state_->code;
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (code.has_jit)
    found = pcre2_jit_match(code.code, subject, text_.size(), from, PCRE2_NO_UTF_CHECK, state_->data, state_->context);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
    found = pcre2_match(code.code, subject, text_.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, state_->data,
                        state_->context);
  }
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(found, message, sizeof message);
    fail("the regular expression {:?} failed on a text of {} bytes: {}", regex_.pattern_, text_.size(),
         reinterpret_cast<const char*>(message));
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(state_->data);
  return Span{std::min(ends[0], ends[1]), ends[1]};  // \K may put the start behind the end
}

std::optional<Span> Regex::Matcher::next() {
  if (regex_.literal_) {
    const std::size_t at = text_.find(*regex_.literal_, from_);
    if (at == std::string_view::npos) return std::nullopt;
    from_ = at + regex_.literal_->size();
    return Span{at, from_};
  }
  while (from_ <= text_.size()) {
    const std::optional<Span> match = search(from_);
    if (!match) {
      from_ = text_.size() + 1;
      return std::nullopt;
    }
    if (match->begin == match->end && last_end_ == match->end) {
      from_ += from_ < text_.size() ? utf8_length(static_cast<unsigned char>(text_[from_])) : 1;
      continue;
    }
    from_ = match->end;
    last_end_ = match->end;
    return match;
  }
  return std::nullopt;
}

}  // namespace fathom
