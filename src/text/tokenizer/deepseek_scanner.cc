#include "text/tokenizer/deepseek_scanner.h"

#include <array>

#include "text/unicode/classes.h"

namespace fathom {
namespace {

constexpr std::uint8_t kNumber = 1;       // \p{N}; also marks the end of the text
constexpr std::uint8_t kCjk = 2;          // the class of the second pattern
constexpr std::uint8_t kLetter = 4;       // \p{L} or \p{M}
constexpr std::uint8_t kPunctuation = 8;  // \p{P} or \p{S}
constexpr std::uint8_t kSpace = 16;       // \s
constexpr std::uint8_t kNewline = 32;     // \r or \n
constexpr std::uint8_t kAsciiLetter = 64;
constexpr std::uint8_t kAsciiPunctuation = 128;

constexpr std::string_view kNumbers = "\\p{N}{1,3}";
constexpr std::string_view kCjkRun = "[一-龥\u3040-ゟ゠-ヿ]+";
// The third pattern, in the two spellings of line ends that tokenizer.json files have.
constexpr std::array<std::string_view, 2> kWords = {
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};

struct Char {
  std::uint8_t bits;
  std::uint8_t length;  // bytes; 0 at the end
};

// One pass over one text. A segment is what the first two patterns leave together: no number, all CJK or none.
class Pass {
 public:
  Pass(const std::uint8_t* classes, Piece text, std::vector<Piece>& out)
      : classes_(classes), data_(text.text.data()), size_(text.text.size()), first_(text.first), out_(out) {}

  void run() {
    while (at_ < size_) {
      const Char c = read(at_);
      if (c.bits & kNumber) {
        number();
        continue;
      }
      segment_ = c.bits & kCjk;
      const std::size_t end = match(at_, c);
      if (end > at_) {
        flush();
        emit(end);
      } else {
        at_ += c.length;
        if (!inside(read(at_))) flush();
      }
    }
    flush();
  }

 private:
  Char read(std::size_t at) const {
    if (at >= size_) return {kNumber, 0};
    const auto* p = reinterpret_cast<const unsigned char*>(data_) + at;
    const std::uint32_t a = p[0];
    if (a < 0x80) return {classes_[a], 1};
    if (a < 0xE0) return {classes_[((a & 0x1F) << 6) | (p[1] & 0x3F)], 2};
    if (a < 0xF0) return {classes_[((a & 0x0F) << 12) | ((p[1] & 0x3Fu) << 6) | (p[2] & 0x3F)], 3};
    return {classes_[((a & 7) << 18) | ((p[1] & 0x3Fu) << 12) | ((p[2] & 0x3Fu) << 6) | (p[3] & 0x3F)], 4};
  }

  bool inside(Char c) const { return (c.bits & (kNumber | kCjk)) == segment_; }

  void emit(std::size_t end) {
    out_.push_back({{data_ + at_, end - at_}, first_ && at_ == 0});
    at_ = gap_ = end;
  }

  // What nothing matched, as one piece.
  void flush() {
    if (gap_ < at_) out_.push_back({{data_ + gap_, at_ - gap_}, first_ && gap_ == 0});
    gap_ = at_;
  }

  void number() {
    flush();
    std::size_t end = at_;
    for (int i = 0; i < 3 && end < size_; ++i) {
      const Char c = read(end);
      if (!(c.bits & kNumber)) break;
      end += c.length;
    }
    emit(end);
  }

  // The end of the run of characters with any of these bits.
  std::size_t run_of(std::uint8_t bits, std::size_t at) const {
    for (Char c = read(at); (c.bits & bits) && inside(c); c = read(at)) at += c.length;
    return at;
  }

  // The end of the third pattern's match at `at`, or `at` when there is none.
  std::size_t match(std::size_t at, Char c) const {
    if ((c.bits & kAsciiPunctuation) && (read(at + 1).bits & kAsciiLetter)) return run_of(kAsciiLetter, at + 1);
    if (c.bits & kLetter) return run_of(kLetter, at + c.length);
    if (!(c.bits & (kNewline | kPunctuation))) {
      const std::size_t end = run_of(kLetter, at + c.length);
      if (end > at + c.length) return end;
    }
    const std::size_t symbols = at + (data_[at] == ' ' ? 1 : 0);
    if (const std::size_t end = run_of(kPunctuation, symbols); end > symbols) return run_of(kNewline, end);
    return c.bits & kSpace ? spaces(at) : at;
  }

  // Up to the last line end; else all that is followed by nothing; else all but the last; at least one.
  std::size_t spaces(std::size_t at) const {
    std::size_t end = at, last = at, after_newline = 0;
    Char c = read(at);
    for (; (c.bits & kSpace) && inside(c); c = read(end)) {
      last = end;
      end += c.length;
      if (c.bits & kNewline) after_newline = end;
    }
    if (after_newline > 0) return after_newline;
    return inside(c) && last > at ? last : end;
  }

  const std::uint8_t* classes_;
  const char* data_;
  std::size_t size_;
  bool first_;
  std::vector<Piece>& out_;
  std::size_t at_ = 0, gap_ = 0;
  std::uint8_t segment_ = 0;
};

std::uint8_t class_bits(Category category) {
  switch (major_category(category)) {
    case 'N':
      return kNumber;
    case 'L':
    case 'M':
      return kLetter;
    case 'P':
    case 'S':
      return kPunctuation;
    default:
      return 0;
  }
}

}  // namespace

bool DeepSeekScanner::stands_for(std::span<const std::string> patterns) {
  return patterns.size() == 3 && patterns[0] == kNumbers && patterns[1] == kCjkRun &&
         (patterns[2] == kWords[0] || patterns[2] == kWords[1]);
}

DeepSeekScanner::DeepSeekScanner() : classes_(kCodePoints) {
  const auto starts = category_starts();
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] >> 8 : kCodePoints;
    const std::uint8_t bits = class_bits(static_cast<Category>(starts[i] & 0xFF));
    for (std::size_t c = starts[i] >> 8; c < end; ++c) classes_[c] = bits;
  }
  for (const CodePointRange& range : space_ranges())
    for (char32_t c = range.first; c <= range.last; ++c) classes_[c] |= kSpace;
  for (const CodePointRange& range : {CodePointRange{0x4E00, 0x9FA5}, CodePointRange{0x3040, 0x30FF}})
    for (char32_t c = range.first; c <= range.last; ++c) classes_[c] |= kCjk;
  classes_['\r'] |= kNewline;
  classes_['\n'] |= kNewline;
  for (std::size_t c = 0x21; c < 0x7F; ++c) {
    const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter)
      classes_[c] |= kAsciiLetter;
    else if (c < '0' || c > '9')
      classes_[c] |= kAsciiPunctuation;
  }
}

void DeepSeekScanner::scan(Piece text, std::vector<Piece>& out) const { Pass(classes_.data(), text, out).run(); }

}  // namespace fathom
