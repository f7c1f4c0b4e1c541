#include "text/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/regex.h"
#include "text/unicode/classes.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

constexpr const char* kRole = "normalizer";

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(NormalizedText& value) const override {
    for (const auto& part : parts_) part->apply(value);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

// NFC, NFD, NFKC, NFKD. Reordering is ours: the library's is quadratic in the length of a run of marks.
class UnicodeForm : public Normalizer {
 public:
  UnicodeForm(bool compose, bool compatible) : compose_(compose), compatible_(compatible) {}

  void apply(NormalizedText& value) const override {
    const bool ascii = std::all_of(value.text.begin(), value.text.end(), [](char c) { return (c & 0x80) == 0; });
    if (ascii) return;
    std::vector<utf8proc_int32_t> points = decomposed(value.text);
    reorder(points);
    auto count = static_cast<utf8proc_ssize_t>(points.size());
    if (compose_) {
      const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
      count = utf8proc_normalize_utf32(points.data(), count, options);
      CHECK(count >= 0, "cannot normalise a text: {}", utf8proc_errmsg(count));
    }
    value.text.clear();
    for (utf8proc_ssize_t i = 0; i < count; ++i)
      append_utf8(value.text, static_cast<char32_t>(points[static_cast<std::size_t>(i)]));
  }

 private:
  std::vector<utf8proc_int32_t> decomposed(std::string_view text) const {
    const auto options =
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible_ ? UTF8PROC_COMPAT : 0));
    std::vector<utf8proc_int32_t> points;
    points.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const auto c = static_cast<utf8proc_int32_t>(next_char(text, at));
      utf8proc_int32_t parts[32];
      int last_class = 0;
      const utf8proc_ssize_t n = utf8proc_decompose_char(c, parts, 32, options, &last_class);
      CHECK(n >= 0 && n <= 32, "cannot normalise U+{:04X}", c);
      points.insert(points.end(), parts, parts + n);
    }
    return points;
  }

  // Sorts each run of combining marks by combining class, keeping the order of equals.
  static void reorder(std::vector<utf8proc_int32_t>& points) {
    const auto order = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
    for (std::size_t i = 0; i < points.size();) {
      if (points[i] < 0x300 || order(points[i]) == 0) {
        ++i;
        continue;
      }
      std::size_t end = i + 1;
      while (end < points.size() && order(points[end]) != 0) ++end;
      std::stable_sort(points.begin() + static_cast<std::ptrdiff_t>(i),
                       points.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](auto a, auto b) { return order(a) < order(b); });
      i = end;
    }
  }

  bool compose_, compatible_;
};

class Replace : public Normalizer {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(NormalizedText& value) const override {
    if (value.text.empty()) return;  // nothing matches there, not even what matches nothing
    Regex::Matcher matcher(pattern_, has_recent_characters(value.text));
    matcher.start(value.text);
    std::string out;
    // What replaces several characters stands where the last of them stood, and what follows nothing, after them.
    std::size_t from = 0, first = 0;
    if (!content_.empty()) next_char(value.text, first);
    while (const auto match = matcher.next()) {
      if (match->begin == 0 && match->end > first) value.at_start = false;
      out.append(value.text, from, match->begin - from);
      out += content_;
      from = match->end;
    }
    out.append(value.text, from);
    value.text = std::move(out);
  }

 private:
  Regex pattern_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(NormalizedText& value) const override {
    if (!value.text.empty()) value.text.insert(0, text_);
  }

 private:
  std::string text_;
};

class Lowercase : public Normalizer {
 public:
  void apply(NormalizedText& value) const override {
    std::string out;
    out.reserve(value.text.size());
    for (std::size_t at = 0; at < value.text.size();) append_lower(out, next_char(value.text, at));
    value.text = std::move(out);
  }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& value) const override {
    const std::string_view text = value.text;
    std::size_t begin = 0, end = text.size();
    for (std::size_t at = 0; left_ && at < end && is_space(next_char(text, at));) begin = at;
    for (std::size_t at = end; right_ && at > begin && is_space(previous_char(text, at));) end = at;
    if (begin > 0) value.at_start = false;
    value.text = std::string(text.substr(begin, end - begin));
  }

 private:
  bool left_, right_;
};

class StripAccents : public Normalizer {
 public:
  void apply(NormalizedText& value) const override {
    std::string out;
    for (std::size_t at = 0; at < value.text.size();) {
      const bool leading = at == 0;
      const char32_t c = next_char(value.text, at);
      if (!is_accent(c))
        append_utf8(out, c);
      else if (leading)
        value.at_start = false;
    }
    value.text = std::move(out);
  }
};

std::unique_ptr<Normalizer> make(const nlohmann::json& description, int depth);

std::unique_ptr<Normalizer> make_sequence(const nlohmann::json& description, int depth) {
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (const auto& part : json_array(description, kRole, "normalizers"))
    if (auto made = make(part, depth + 1)) parts.push_back(std::move(made));
  if (parts.empty()) return nullptr;
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<Sequence>(std::move(parts));
}

std::unique_ptr<Normalizer> make(const nlohmann::json& description, int depth) {
  CHECK(depth <= kMaxNesting, "tokenizer.json: normalizers are nested more than {} deep", kMaxNesting);
  if (description.is_null()) return nullptr;
  const std::string type = json_type(description, kRole);
  if (type == "Sequence") return make_sequence(description, depth);
  if (type == "NFC") return std::make_unique<UnicodeForm>(true, false);
  if (type == "NFD") return std::make_unique<UnicodeForm>(false, false);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(true, true);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(false, true);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Prepend") return std::make_unique<Prepend>(json_string(description, kRole, "prepend"));
  if (type == "Strip") {
    return std::make_unique<Strip>(json_bool(description, kRole, "strip_left"),
                                   json_bool(description, kRole, "strip_right"));
  }
  if (type == "Replace")
    return std::make_unique<Replace>(json_pattern(description, kRole), json_string(description, kRole, "content"));
  fail("tokenizer.json: unknown normalizer \"{}\"", type);
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const nlohmann::json& description) { return make(description, 0); }

}  // namespace fathom
