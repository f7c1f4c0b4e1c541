#include "text/jinja/lexer.h"

#include <cmath>
#include <cstdlib>

#include "text/jinja/text.h"
#include "text/jinja/unicode.h"
#include "text/unicode/utf8.h"

namespace fathom::jinja {

namespace {

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                           "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool ascii_digit(char c) { return c >= '0' && c <= '9'; }

// One pass over the source. `pos_` is the next byte to read.
class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) data();
    add(TokenKind::kEnd, source_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::size_t pos, const std::string& text) const { fail_at(source_, pos, text); }

  Token& add(TokenKind kind, std::size_t pos, std::string text = {}) {
    tokens_.push_back({.kind = kind, .pos = static_cast<std::uint32_t>(pos), .text = std::move(text)});
    return tokens_.back();
  }

  bool starts(std::string_view text, std::size_t pos) const { return source_.substr(pos, text.size()) == text; }

  std::size_t skip_space(std::size_t pos) const {
    while (pos < source_.size() && is_space(char_at(source_, pos))) pos += char_size(source_, pos);
    return pos;
  }

  // Adds source_[begin, end) as data, stripped as the sign of the following tag asks.
  void add_data(std::size_t begin, std::size_t end, char sign, bool variable) {
    if (sign == '-') {
      const Str text{.data = source_.data() + begin, .size = end - begin};
      Runtime rt({.max_steps = INT64_MAX}, source_);
      end = begin + strip_bounds(rt, text, nullptr, false, true).end;
    } else if (sign != '+' && !variable) {
      const std::string_view text = source_.substr(begin, end - begin);
      const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
      const bool at_line_start = line > 0 || line_starting_;
      if (at_line_start && skip_space(begin + line) >= end) end = begin + line;
    }
    if (end > begin) add(TokenKind::kData, begin, std::string(source_.substr(begin, end - begin)));
  }

  char sign_at(std::size_t pos) const {
    return pos < source_.size() && (source_[pos] == '-' || source_[pos] == '+') ? source_[pos] : '\0';
  }

  // Text up to the next tag, and the tag.
  void data() {
    std::size_t tag = pos_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == source_.npos) {
        add(TokenKind::kData, pos_, std::string(source_.substr(pos_)));
        pos_ = source_.size();
        return;
      }
      if (starts("{%", tag) || starts("{{", tag) || starts("{#", tag)) break;
      ++tag;
    }
    const char kind = source_[tag + 1], sign = sign_at(tag + 2);
    add_data(pos_, tag, sign, kind == '{');
    pos_ = tag + 2 + (sign != '\0' ? 1 : 0);
    if (kind == '#') return comment(tag);
    if (kind == '%' && raw(tag)) return;
    add(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, tag);
    expression(kind == '%');
  }

  void finish_tag(std::size_t end) {
    line_starting_ = end > 0 && source_[end - 1] == '\n';
    pos_ = end;
  }

  // The end of a block-like tag whose closing mark stands at `close`: trims as `sign` asks.
  std::size_t after_close(std::size_t close, char sign) const {
    const std::size_t end = close + 2;
    if (sign == '-') return skip_space(end);
    return sign == '\0' && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
  }

  void comment(std::size_t tag) {
    const std::size_t close = source_.find("#}", pos_);
    if (close == source_.npos) fail(tag, "Missing end of comment tag");
    const char sign = close > pos_ ? sign_at(close - 1) : '\0';
    finish_tag(after_close(close, sign));
  }

  // Whether the tag is {% raw %}; then everything up to {% endraw %} is data.
  bool raw(std::size_t tag) {
    std::size_t pos = skip_space(pos_);
    if (!starts("raw", pos)) return false;
    pos = skip_space(pos + 3);
    if (starts("-%}", pos)) {
      pos = skip_space(pos + 3);
    } else if (starts("%}", pos)) {
      pos += 2;
    } else {
      return false;
    }
    line_starting_ = source_[pos - 1] == '\n';
    for (std::size_t open = source_.find("{%", pos); open != source_.npos; open = source_.find("{%", open + 1)) {
      const char sign = sign_at(open + 2);
      std::size_t at = skip_space(open + 2 + (sign != '\0' ? 1 : 0));
      if (!starts("endraw", at)) continue;
      at = skip_space(at + 6);
      const char close_sign = sign_at(at);
      const std::size_t close = at + (close_sign != '\0' ? 1 : 0);
      if (!starts("%}", close)) continue;
      add_data(pos, open, sign, false);
      finish_tag(after_close(close, close_sign));
      return true;
    }
    fail(tag, "Missing end of raw directive");
  }

  // The tokens up to the end of a tag.
  void expression(bool block) {
    std::vector<std::pair<char, std::size_t>> open;
    while (true) {
      pos_ = skip_space(pos_);
      if (pos_ >= source_.size()) return;
      if (open.empty() && end_tag(block)) return;
      if (number() || name() || string()) continue;
      brace(open);
    }
  }

  bool end_tag(bool block) {
    const char sign = sign_at(pos_);
    if (block) {
      const std::size_t close = pos_ + (sign != '\0' ? 1 : 0);
      if (!starts("%}", close)) return false;
      add(TokenKind::kBlockEnd, pos_);
      finish_tag(after_close(close, sign));
      return true;
    }
    const std::size_t close = pos_ + (sign == '-' ? 1 : 0);
    if (!starts("}}", close)) return false;
    add(TokenKind::kVariableEnd, pos_);
    finish_tag(sign == '-' ? skip_space(close + 2) : close + 2);
    return true;
  }

  // The end of digits with single underscores between them, from `pos`; `pos` itself when there are none.
  std::size_t digits(std::size_t pos) const {
    if (pos >= source_.size() || !ascii_digit(source_[pos])) return pos;
    while (pos < source_.size()) {
      if (ascii_digit(source_[pos])) {
        ++pos;
      } else if (source_[pos] == '_' && pos + 1 < source_.size() && ascii_digit(source_[pos + 1])) {
        pos += 2;
      } else {
        break;
      }
    }
    return pos;
  }

  static std::string without_underscores(std::string_view text) {
    std::string out;
    for (const char c : text)
      if (c != '_') out += c;
    return out;
  }

  bool number() {
    if (!ascii_digit(source_[pos_])) return false;
    const std::size_t whole = digits(pos_);
    std::size_t end = whole;
    if (pos_ == 0 || source_[pos_ - 1] != '.') {
      if (end + 1 < source_.size() && source_[end] == '.') {
        const std::size_t fraction = digits(end + 1);
        if (fraction > end + 1) end = fraction;
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        const std::size_t sign = end + 1 + (sign_at(end + 1) != '\0' ? 1 : 0);
        const std::size_t exponent = digits(sign);
        if (exponent > sign) end = exponent;
      }
    }
    if (end > whole) {
      const std::string text = without_underscores(source_.substr(pos_, end - pos_));
      add(TokenKind::kFloat, pos_).real = std::strtod(text.c_str(), nullptr);
      pos_ = end;
      return true;
    }
    integer(whole);
    return true;
  }

  static int digit_value(char c) {
    if (ascii_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
  }

  // The end of digits of `base` from `pos`, where an underscore may stand before each.
  std::size_t based_digits(std::size_t pos, int base) const {
    const auto is_digit_at = [&](std::size_t at) { return at < source_.size() && digit_value(source_[at]) < base; };
    while (true) {
      if (is_digit_at(pos)) {
        ++pos;
      } else if (pos < source_.size() && source_[pos] == '_' && is_digit_at(pos + 1)) {
        pos += 2;
      } else {
        return pos;
      }
    }
  }

  void integer(std::size_t decimal_end) {
    std::size_t begin = pos_, end = decimal_end;
    int base = 10;
    if (source_[pos_] == '0') {
      const char mark = pos_ + 1 < source_.size() ? static_cast<char>(source_[pos_ + 1] | 0x20) : '\0';
      const int wish = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      if (wish != 10 && based_digits(pos_ + 2, wish) > pos_ + 2) {
        base = wish, begin = pos_ + 2, end = based_digits(begin, base);
      } else {
        end = pos_ + 1;
        while (starts("0", end) || starts("_0", end)) end += source_[end] == '_' ? 2 : 1;
      }
    }
    Int value = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (source_[i] == '_') continue;
      if (__builtin_mul_overflow(value, Int(base), &value) ||
          __builtin_add_overflow(value, Int(digit_value(source_[i])), &value))
        fail(pos_, "this integer does not fit into 128 bits");
    }
    add(TokenKind::kInteger, pos_).integer = value;
    pos_ = end;
  }

  bool name() {
    std::size_t end = pos_;
    while (end < source_.size()) {
      const char32_t c = char_at(source_, end);
      if (!is_word(c) && !is_identifier_part(c)) break;
      end += char_size(source_, end);
    }
    if (end == pos_) return false;
    const std::string_view text = source_.substr(pos_, end - pos_);
    if (!is_identifier(text)) fail(pos_, "Invalid character in identifier");
    add(TokenKind::kName, pos_, std::string(text));
    pos_ = end;
    return true;
  }

  bool string() {
    const char quote = source_[pos_];
    if (quote != '\'' && quote != '"') return false;
    std::size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail(pos_, "this string has no end");
    add(TokenKind::kString, pos_, unescape(pos_ + 1, end));
    pos_ = end + 1;
    return true;
  }

  std::string unescape(std::size_t begin, std::size_t end) const {
    std::string out;
    for (std::size_t pos = begin; pos < end;) {
      if (source_[pos] != '\\') {
        out += source_[pos++];
      } else {
        pos = escape(out, pos, end);
      }
    }
    return out;
  }

  // Appends the meaning of the escape at `pos` and returns where it ends.
  std::size_t escape(std::string& out, std::size_t pos, std::size_t end) const {
    const char c = source_[pos + 1];
    constexpr std::string_view kNames = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (c == '\n') return pos + 2;
    if (const std::size_t at = kNames.find(c); at != kNames.npos) {
      out += kMeanings[at];
      return pos + 2;
    }
    if (c >= '0' && c <= '7') {
      char32_t code = 0;
      std::size_t at = pos + 1;
      for (; at < end && at < pos + 4 && source_[at] >= '0' && source_[at] <= '7'; ++at)
        code = code * 8 + static_cast<char32_t>(source_[at] - '0');
      append_utf8(out, code);
      return at;
    }
    const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N') fail(pos, "\\N{...} escapes are not supported: write the character itself or \\u....");
    if (size == 0) {
      out += '\\';  // an unknown escape stands for itself
      return pos + 1;
    }
    char32_t code = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const int digit = pos + 2 + i < end ? digit_value(source_[pos + 2 + i]) : 99;
      if (digit > 15) fail(pos, fmt::format("truncated \\{} escape: it takes {} hexadecimal digits", c, size));
      code = code * 16 + static_cast<char32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail(pos, "this escape names no Unicode character");
    append_utf8(out, code);
    return pos + 2 + size;
  }

  void brace(std::vector<std::pair<char, std::size_t>>& open) {
    for (const std::string_view op : kOperators) {
      if (!starts(op, pos_)) continue;
      const char c = op[0];
      if (c == '(' || c == '[' || c == '{') open.emplace_back(c == '(' ? ')' : c == '[' ? ']' : '}', pos_);
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty()) fail(pos_, fmt::format("unexpected '{}'", c));
        if (open.back().first != c) fail(pos_, fmt::format("unexpected '{}', expected '{}'", c, open.back().first));
        open.pop_back();
      }
      add(TokenKind::kOperator, pos_, std::string(op));
      pos_ += op.size();
      return;
    }
    fail(pos_, fmt::format("unexpected char '{}'", source_.substr(pos_, char_size(source_, pos_))));
  }

  std::string_view source_;
  std::size_t pos_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace fathom::jinja
