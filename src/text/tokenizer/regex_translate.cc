// Oniguruma's regular expressions (Ruby's dialect, as tokenizer.json has them) in the language of PCRE2.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/tokenizer/regex.h"
#include "text/unicode/classes.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

constexpr std::string_view kCategoryNames[kCategories] = {"Cn", "Cc", "Cf", "Co", "Cs", "Lu", "Ll", "Lt", "Lm", "Lo",
                                                          "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
                                                          "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"};

// Long names of Oniguruma that PCRE2 does not know, squeezed to lower case letters.
constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {{"letter", "L"},
                                                                        {"mark", "M"},
                                                                        {"number", "N"},
                                                                        {"punctuation", "P"},
                                                                        {"symbol", "S"},
                                                                        {"separator", "Z"},
                                                                        {"other", "C"},
                                                                        {"uppercaseletter", "Lu"},
                                                                        {"lowercaseletter", "Ll"},
                                                                        {"titlecaseletter", "Lt"},
                                                                        {"modifierletter", "Lm"},
                                                                        {"otherletter", "Lo"},
                                                                        {"decimalnumber", "Nd"},
                                                                        {"alphabetic", "Alphabetic"},
                                                                        {"alpha", "Alphabetic"},
                                                                        {"han", "Han"},
                                                                        {"space", "Space"},
                                                                        {"whitespace", "Space"},
                                                                        {"word", "Word"},
                                                                        {"digit", "Nd"}};

std::string squeezed(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != ' ' && c != '_' && c != '-') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}

// The name under which the tables below know a property; any other name is left to PCRE2.
std::string canonical_property(std::string_view name) {
  const std::string key = squeezed(name);
  for (const auto& [known, canonical] : kLongNames)
    if (key == known) return std::string(canonical);
  for (const std::string_view c : kCategoryNames)
    if (key == squeezed(c)) return std::string(c);
  if (key.size() == 1 && std::string_view("clmnpsz").find(key[0]) != std::string_view::npos)
    return std::string(1, static_cast<char>(key[0] - 32));
  return std::string(name);
}

// Outside of a class, Oniguruma's \w has the superscripts and fractions of Latin-1, but no others.
constexpr std::string_view kBareWord = "BareWord";
constexpr CodePointRange kLatinNumbers[] = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};

using Ranges = std::vector<CodePointRange>;

Ranges merged(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Ranges out;
  for (const CodePointRange& r : ranges) {
    if (!out.empty() && r.first <= out.back().last + 1)
      out.back().last = std::max(out.back().last, r.last);
    else
      out.push_back(r);
  }
  return out;
}

Ranges complement(const Ranges& ranges) {
  Ranges out;
  char32_t next = 0;
  for (const CodePointRange& r : ranges) {
    if (r.first > next) out.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next < kCodePoints) out.push_back({next, kCodePoints - 1});
  return out;
}

void add_categories(Ranges& out, std::string_view name) {
  const auto starts = category_starts();
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::string_view found = kCategoryNames[starts[i] & 0xFF];
    if (found.substr(0, name.size()) != name) continue;
    out.push_back({starts[i] >> 8, i + 1 < starts.size() ? (starts[i + 1] >> 8) - 1 : kCodePoints - 1});
  }
}

// The code points of a property by our tables; empty when they do not know it.
Ranges property_ranges(const std::string& name) {
  Ranges out;
  const auto add = [&](std::span<const CodePointRange> r) { out.insert(out.end(), r.begin(), r.end()); };
  const bool word = name == "Word" || name == kBareWord;
  if (name == "Alphabetic" || word) add(alphabetic_ranges());
  if (name == "Han") add(han_ranges());
  if (name == "Space") add(space_ranges());
  if (word)
    for (const char* part : {"M", "Nd", "Pc"}) add_categories(out, part);
  if (name == kBareWord) add(kLatinNumbers);
  if (name.size() <= 2) add_categories(out, name);
  return merged(std::move(out));
}

std::string class_text(const Ranges& ranges) {
  std::string out;
  for (const CodePointRange& r : ranges) {
    // PCRE2 refuses surrogates in a pattern, and valid text has none.
    if (r.first >= 0xD800 && r.last <= 0xDFFF) continue;
    const char32_t first = r.first >= 0xD800 && r.first <= 0xDFFF ? 0xE000 : r.first;
    const char32_t last = r.last >= 0xD800 && r.last <= 0xDFFF ? 0xD7FF : r.last;
    out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<unsigned>(first), static_cast<unsigned>(last));
  }
  return out;
}

class Translator {
 public:
  Translator(std::string_view pattern, bool own_tables) : in_(pattern), own_tables_(own_tables) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\')
        escape();
      else if (c == '[')
        out_ += bracket(0);
      else if (c == '(')
        group();
      else if (c == '{' && in_.substr(at_, 2) == "{,")
        out_ += "{0,", at_ += 2;
      else
        out_ += c, ++at_;
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail("the regular expression {:?} has {} at byte {}, which is not supported", in_, what, at_);
  }

  char peek(std::size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  // What stands between [ and ] for a property, negated or not.
  std::string property(const std::string& name, bool negated) const {
    const bool word = name == "Word" || name == kBareWord;
    if (word && !negated && !own_tables_) {
      const char* latin = name == kBareWord ? "\\xb2\\xb3\\xb9\\xbc-\\xbe" : "";
      return fmt::format("\\p{{Alphabetic}}\\p{{M}}\\p{{Nd}}\\p{{Pc}}{}", latin);
    }
    // PCRE2 has other ideas of \s and \w, and characters have become alphabetic since its version of Unicode.
    if (own_tables_ || word || name == "Space" || name == "Alphabetic") {
      Ranges ranges = property_ranges(name);
      if (!ranges.empty()) return class_text(negated ? complement(ranges) : ranges);
    }
    // By itself a script's name would mean Script_Extensions.
    return fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', is_script_name(name) ? "sc:" : "", name);
  }

  // \p{Name}, \p{^Name}, \P{Name}, \pL with at_ on the letter p.
  std::string braced_property(bool bare) {
    bool negated = in_[at_++] == 'P';
    std::string_view name;
    if (peek() == '{') {
      const std::size_t end = in_.find('}', at_);
      if (end == std::string_view::npos) refuse("an unclosed property");
      name = in_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    } else {
      if (at_ >= in_.size()) refuse("a property without a name");
      name = in_.substr(at_++, 1);
    }
    if (name.starts_with('^')) negated = !negated, name.remove_prefix(1);
    const std::string known = canonical_property(name);
    return property(bare && known == "Word" ? std::string(kBareWord) : known, negated);
  }

  // A class escape (\s, \p{L}, \h ...) with at_ on the letter: its members, or empty if it is not one.
  std::string class_escape(bool bare) {
    const char c = in_[at_];
    const std::string word(bare ? kBareWord : "Word");
    if (c == 'p' || c == 'P') return braced_property(bare);
    constexpr std::string_view letters = "sSwWdDhH";
    if (c == '\0' || letters.find(c) == std::string_view::npos) return {};
    ++at_;
    switch (c) {
      case 's':
        return property("Space", false);
      case 'S':
        return property("Space", true);
      case 'w':
        return property(word, false);
      case 'W':
        return property(word, true);
      case 'd':
        return property("Nd", false);
      case 'D':
        return property("Nd", true);
      case 'h':
        return "0-9a-fA-F";
      default:
        return class_text(complement({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}));
    }
  }

  // Any other escape, copied with the few that are spelled differently; at_ on the letter.
  std::string plain_escape() {
    const char c = in_[at_];
    if (c == 'u') {
      const std::string_view digits = in_.substr(at_ + 1, 4);
      if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
        refuse("\\u without four hexadecimal digits");
      at_ += 5;
      return fmt::format("\\x{{{}}}", digits);
    }
    const auto length = static_cast<std::size_t>(utf8_length(static_cast<unsigned char>(c)));
    std::string out = "\\" + std::string(in_.substr(at_, length));
    at_ += length;
    return out;
  }

  void escape() {
    ++at_;
    if (at_ >= in_.size()) refuse("a backslash at the end");
    if (const std::string members = class_escape(true); !members.empty()) {
      out_ += "[" + members + "]";
      return;
    }
    const char c = in_[at_];
    if (c == 'b' || c == 'B') {
      ++at_;
      const std::string w = "[" + property(std::string(kBareWord), false) + "]";
      out_ += c == 'b' ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", w)
                       : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", w);
    } else if (c == 'O') {
      ++at_;
      out_ += "(?s:.)";
    } else {
      out_ += plain_escape();
    }
  }

  // Options: Ruby's m lets the dot match newlines, which is PCRE2's s.
  void group() {
    out_ += in_[at_++];
    if (peek() != '?') return;
    std::size_t end = at_ + 1;
    while (end < in_.size() && std::string_view("imx-").find(in_[end]) != std::string_view::npos) ++end;
    if (end == at_ + 1 || end >= in_.size() || (in_[end] != ':' && in_[end] != ')')) return;
    for (; at_ < end; ++at_) out_ += in_[at_] == 'm' ? 's' : in_[at_];
  }

  std::string posix_class() {
    const std::size_t end = in_.find(":]", at_);
    if (end == std::string_view::npos) return {};
    std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPosix = {{{"alpha", "Alphabetic"},
                                                                                      {"digit", "Nd"},
                                                                                      {"space", "Space"},
                                                                                      {"word", "Word"},
                                                                                      {"upper", "Uppercase"},
                                                                                      {"lower", "Lowercase"}}};
    for (const auto& [known, canonical] : kPosix) {
      if (name != known) continue;
      at_ = end + 2;
      return property(std::string(canonical), negated);
    }
    refuse("a POSIX class other than alpha, digit, space, word, upper, lower");
  }

  // [...] with nesting and &&: an atom. Oniguruma nests classes and intersects them; PCRE2 10.42 does neither.
  std::string bracket(int depth) {
    if (depth > 50) refuse("classes nested too deeply");
    ++at_;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    std::vector<std::string> parts;  // what && intersects
    std::string members;
    std::vector<std::string> nested;
    bool first = true;
    for (;; first = false) {
      if (at_ >= in_.size()) refuse("an unclosed class");
      if (in_[at_] == ']' && !first) break;
      if (in_.substr(at_, 2) == "&&") {
        parts.push_back(united(members, nested));
        members.clear(), nested.clear();
        at_ += 2;
      } else if (in_.substr(at_, 2) == "[:" && in_.find(":]", at_) != std::string_view::npos) {
        members += posix_class();
      } else if (in_[at_] == '[') {
        nested.push_back(bracket(depth + 1));
      } else {
        member(members);
      }
    }
    ++at_;
    if (parts.empty() && nested.empty()) return (negated ? "[^" : "[") + members + "]";
    parts.push_back(united(members, nested));
    std::string all = "(?:";
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) all += "(?=" + parts[i] + ")";
    all += parts.back() + ")";
    return negated ? "(?:(?!" + all + ")(?s:.))" : all;
  }

  static std::string united(const std::string& members, const std::vector<std::string>& nested) {
    std::string all = members.empty() ? "" : "[" + members + "]";
    for (const std::string& n : nested) all += (all.empty() ? "" : "|") + n;
    return all.empty() ? "(?!)" : "(?:" + all + ")";
  }

  void member(std::string& members) {
    if (in_[at_] == '\\') {
      ++at_;
      if (at_ >= in_.size()) refuse("a backslash at the end");
      const std::string set = class_escape(false);
      members += set.empty() ? plain_escape() : set;
      return;
    }
    if (in_[at_] == ']') members += '\\';  // the first member may be a bare ]
    const auto length = static_cast<std::size_t>(utf8_length(static_cast<unsigned char>(in_[at_])));
    members += in_.substr(at_, length);
    at_ += length;
  }

  std::string_view in_;
  bool own_tables_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_oniguruma(std::string_view pattern, bool own_tables) {
  return Translator(pattern, own_tables).run();
}

}  // namespace fathom
