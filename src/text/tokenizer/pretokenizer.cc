#include "text/tokenizer/pretokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/deepseek_scanner.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/split_behavior.h"
#include "text/unicode/classes.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

constexpr const char* kRole = "pre-tokenizer";
constexpr const char* kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

using Step = PreTokenizer::Step;

class Split : public Step {
 public:
  Split(Regex regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  void run(const std::vector<Piece>& in, PieceList& out, bool recent) const override {
    Regex::Matcher matcher(regex_, recent);
    std::vector<Cut> cuts;
    for (const Piece& piece : in) {
      cuts.clear();
      matcher.start(piece.text);
      std::size_t from = 0;
      while (const auto match = matcher.next()) {
        if (match->begin > from) cuts.push_back({{from, match->begin}, invert_});
        cuts.push_back({*match, !invert_});
        from = match->end;
      }
      if (from < piece.text.size()) cuts.push_back({{from, piece.text.size()}, invert_});
      apply_behavior(piece, cuts, behavior_, out.pieces);
    }
  }

  bool asks_for_recent() const override { return true; }
  const std::string& pattern() const { return regex_.pattern(); }
  bool isolated() const { return behavior_ == SplitBehavior::kIsolated && !invert_; }

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

// Digits, Punctuation, WhitespaceSplit: every character of a class is a match.
class CharSplit : public Step {
 public:
  CharSplit(bool (*is_match)(char32_t), SplitBehavior behavior) : is_match_(is_match), behavior_(behavior) {}

  void run(const std::vector<Piece>& in, PieceList& out, bool) const override {
    std::vector<Cut> cuts;
    for (const Piece& piece : in) {
      cuts.clear();
      for (std::size_t at = 0; at < piece.text.size();) {
        const std::size_t begin = at;
        const bool match = is_match_(next_char(piece.text, at));
        if (!match && !cuts.empty() && !cuts.back().match)
          cuts.back().span.end = at;
        else
          cuts.push_back({{begin, at}, match});
      }
      apply_behavior(piece, cuts, behavior_, out.pieces);
    }
  }

 private:
  bool (*is_match_)(char32_t);
  SplitBehavior behavior_;
};

// Whitespace: runs of word characters, and runs of what is neither that nor space.
class WordSplit : public Step {
 public:
  void run(const std::vector<Piece>& in, PieceList& out, bool) const override {
    for (const Piece& piece : in) {
      std::size_t begin = 0;
      int kind = kSpace;
      for (std::size_t at = 0; at < piece.text.size();) {
        const std::size_t here = at;
        const char32_t c = next_char(piece.text, at);
        const int next = is_word(c) ? kWord : is_space(c) ? kSpace : kOther;
        if (next == kind) continue;
        emit(piece, begin, here, kind, out);
        begin = here, kind = next;
      }
      emit(piece, begin, piece.text.size(), kind, out);
    }
  }

 private:
  enum Kind { kSpace, kWord, kOther };
  static void emit(const Piece& piece, std::size_t begin, std::size_t end, int kind, PieceList& out) {
    if (kind != kSpace && end > begin)
      out.pieces.push_back({piece.text.substr(begin, end - begin), piece.first && begin == 0});
  }
};

class Metaspace : public Step {
 public:
  explicit Metaspace(const nlohmann::json& description)
      : split_(json_bool(description, kRole, "split", true)), scheme_(read_prepend_scheme(description, kRole)) {
    append_utf8(replacement_, json_char(description, kRole, "replacement"));
  }

  void run(const std::vector<Piece>& in, PieceList& out, bool) const override {
    std::vector<Cut> cuts;
    for (const Piece& piece : in) {
      std::string text;
      for (const char c : piece.text) c == ' ' ? void(text += replacement_) : void(text += c);
      const bool wanted = scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && piece.first);
      if (wanted && !text.starts_with(replacement_)) text.insert(0, replacement_);
      const Piece made{out.texts.emplace_back(std::move(text)), piece.first};
      if (!split_) {
        out.pieces.push_back(made);
        continue;
      }
      cuts.clear();
      std::size_t from = 0;
      for (std::size_t at; (at = made.text.find(replacement_, from)) != std::string_view::npos;) {
        if (at > from) cuts.push_back({{from, at}, false});
        from = at + replacement_.size();
        cuts.push_back({{at, from}, true});
      }
      if (from < made.text.size()) cuts.push_back({{from, made.text.size()}, false});
      apply_behavior(made, cuts, SplitBehavior::kMergedWithNext, out.pieces);
    }
  }

 private:
  std::string replacement_;
  bool split_;
  PrependScheme scheme_;
};

// The space in front, where it is asked for.
class PrefixSpace : public Step {
 public:
  void run(const std::vector<Piece>& in, PieceList& out, bool) const override {
    for (const Piece& piece : in) {
      if (piece.text.starts_with(' '))
        out.pieces.push_back(piece);
      else
        out.pieces.push_back({out.texts.emplace_back(" " + std::string(piece.text)), piece.first});
    }
  }
};

// Writes bytes as characters; needed only where something follows ByteLevel.
class ByteChars : public Step {
 public:
  void run(const std::vector<Piece>& in, PieceList& out, bool) const override {
    for (const Piece& piece : in)
      out.pieces.push_back({out.texts.emplace_back(bytes_to_chars(piece.text)), piece.first});
  }
};

class DeepSeek : public Step {
 public:
  void run(const std::vector<Piece>& in, PieceList& out, bool) const override {
    for (const Piece& piece : in) scanner_.scan(piece, out.pieces);
  }

 private:
  DeepSeekScanner scanner_;
};

using Steps = std::vector<PreTokenizer::NamedStep>;

void add_step(Steps& steps, std::unique_ptr<Step> step) { steps.push_back({std::move(step), {}}); }

void add_byte_level(const nlohmann::json& description, Steps& steps) {
  if (json_bool(description, kRole, "add_prefix_space")) add_step(steps, std::make_unique<PrefixSpace>());
  if (json_bool(description, kRole, "use_regex", true))
    add_step(steps, std::make_unique<Split>(Regex(kGpt2Pattern), SplitBehavior::kIsolated, false));
  add_step(steps, std::make_unique<ByteChars>());
}

void add_simple(const nlohmann::json& description, const std::string& type, Steps& steps) {
  if (type == "Split") {
    add_step(steps, std::make_unique<Split>(json_pattern(description, kRole),
                                            read_split_behavior(json_string(description, kRole, "behavior")),
                                            json_bool(description, kRole, "invert")));
  } else if (type == "ByteLevel") {
    add_byte_level(description, steps);
  } else if (type == "Digits") {
    const bool single = json_bool(description, kRole, "individual_digits");
    add_step(steps,
             std::make_unique<CharSplit>(is_numeric, single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  } else if (type == "Punctuation") {
    const bool given = description.contains("behavior");
    add_step(steps, std::make_unique<CharSplit>(
                        is_punctuation,
                        read_split_behavior(given ? json_string(description, kRole, "behavior") : "Isolated")));
  } else if (type == "WhitespaceSplit") {
    add_step(steps, std::make_unique<CharSplit>(is_space, SplitBehavior::kRemoved));
  } else if (type == "Whitespace") {
    add_step(steps, std::make_unique<WordSplit>());
  } else if (type == "Metaspace") {
    add_step(steps, std::make_unique<Metaspace>(description));
  } else {
    fail("tokenizer.json: unknown pre-tokenizer \"{}\"", type);
  }
}

// "pre-tokenizer 2: Split [0-9]+"; `number` counts the steps that are no sequences.
std::string step_name(const nlohmann::json& description, const std::string& type, int number) {
  std::string name = fmt::format("pre-tokenizer {}: {}", number, type);
  if (type == "Split") name += " " + description["pattern"].begin().value().get<std::string>();
  return name;
}

void add(const nlohmann::json& description, int depth, int& number, Steps& steps) {
  CHECK(depth <= kMaxNesting, "tokenizer.json: pre-tokenizers are nested more than {} deep", kMaxNesting);
  if (description.is_null()) return;
  const std::string type = json_type(description, kRole);
  if (type == "Sequence") {
    for (const auto& part : json_array(description, kRole, "pretokenizers")) add(part, depth + 1, number, steps);
    return;
  }
  const std::size_t before = steps.size();
  add_simple(description, type, steps);
  const std::string name = step_name(description, type, ++number);
  for (std::size_t i = before; i < steps.size(); ++i) steps[i].name = name;
}

// Whether the scanner can stand for the three steps from here on.
bool scanner_fits(const Steps& steps, std::size_t from) {
  std::vector<std::string> patterns;
  for (std::size_t i = from; i < std::min(from + 3, steps.size()); ++i)
    if (const auto* split = dynamic_cast<const Split*>(steps[i].step.get()); split != nullptr && split->isolated())
      patterns.push_back(split->pattern());
  return patterns.size() == 3 && DeepSeekScanner::stands_for(patterns);
}

}  // namespace

PreTokenizer::PreTokenizer(const nlohmann::json& description, bool scanners) {
  int number = 0;
  add(description, 0, number, steps_);
  ends_in_bytes_ = !steps_.empty() && dynamic_cast<const ByteChars*>(steps_.back().step.get()) != nullptr;
  if (ends_in_bytes_) steps_.pop_back();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (scanners && scanner_fits(steps_, i)) {
      active_.push_back(scanners_.emplace_back(std::make_unique<DeepSeek>()).get());
      i += 2;
    } else {
      active_.push_back(steps_[i].step.get());
    }
  }
  for (const Step* step : active_) asks_for_recent_ = asks_for_recent_ || step->asks_for_recent();
}

std::vector<PreTokenizer::Explained> PreTokenizer::explain(Piece text) const {
  struct Traced {
    Piece piece;
    std::string_view rule;
  };
  std::vector<Traced> traced, next;
  if (!text.text.empty()) traced.push_back({text, {}});
  const bool recent = has_recent_characters(text.text);
  PieceList made;
  for (const auto& [step, name] : steps_) {
    next.clear();
    for (const Traced& one : traced) {
      made.pieces.clear();
      step->run({one.piece}, made, recent);
      const bool same = made.pieces.size() == 1 && made.pieces[0].text == one.piece.text;
      for (const Piece& piece : made.pieces) next.push_back({piece, same ? one.rule : std::string_view(name)});
    }
    traced.swap(next);
  }
  std::vector<Explained> out;
  out.reserve(traced.size());
  for (const Traced& one : traced) out.push_back({std::string(one.piece.text), one.rule});
  return out;
}

void PreTokenizer::split(Piece text, PieceList& out) const {
  out.pieces.clear();
  if (text.text.empty()) return;
  out.pieces.push_back(text);
  if (active_.empty()) return;
  const bool recent = asks_for_recent_ && has_recent_characters(text.text);
  std::vector<Piece> in;
  for (const Step* step : active_) {
    in.swap(out.pieces);
    out.pieces.clear();
    step->run(in, out, recent);
  }
}

}  // namespace fathom
