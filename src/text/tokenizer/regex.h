// Regular expressions of tokenizer.json: Oniguruma's language, run by PCRE2 with its just-in-time compiler.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace fathom {

// A stretch of bytes, [begin, end).
struct Span {
  std::size_t begin, end;
  bool operator==(const Span&) const = default;
};

// The pattern in PCRE2's language. With `own_tables`, classes are written out from our Unicode tables, for texts with
// characters newer than PCRE2's own. Throws Error for what has no equivalent.
std::string translate_oniguruma(std::string_view pattern, bool own_tables);

// Whether PCRE2 knows a script by this name.
bool is_script_name(std::string_view name);

// A compiled pattern; immutable, may be shared by threads.
class Regex {
 public:
  explicit Regex(std::string_view pattern);
  // Matches exactly this text.
  static Regex literal(std::string_view text);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  const std::string& pattern() const { return pattern_; }
  bool is_literal() const { return literal_.has_value(); }

  // Walks over the matches in one text after another; holds what one thread needs for that.
  class Matcher {
   public:
    // `recent`: the texts may hold characters assigned after Unicode 14 (has_recent_characters).
    Matcher(const Regex& regex, bool recent);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    // Begins with a new text, which must be valid UTF-8 and outlive the walk.
    void start(std::string_view text);
    // The next match; no empty match directly after another match.
    std::optional<Span> next();

   private:
    std::optional<Span> search(std::size_t from);
    struct State;
    const Regex& regex_;
    std::unique_ptr<State> state_;
    std::string_view text_;
    std::size_t from_ = 0;
    std::optional<std::size_t> last_end_;
  };

 private:
  struct Code;
  Regex();
  std::string pattern_;
  std::optional<std::string> literal_;
  std::unique_ptr<Code> code_;    // with PCRE2's Unicode tables
  std::unique_ptr<Code> recent_;  // with ours; null when the pattern has no class that differs
};

}  // namespace fathom
