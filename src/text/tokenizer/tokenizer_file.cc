#include "text/tokenizer/tokenizer_file.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace fathom {
namespace {

using nlohmann::json;

// Takes the parser's events: vocabulary and merges go into their tables, the rest becomes a JSON value.
class Reader : public nlohmann::json_sax<json> {
 public:
  explicit Reader(TokenizerFile& file) : file_(file) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (mode_ != Mode::kVocab) return scalar(value);
    CHECK(value <= static_cast<number_unsigned_t>(kMaxTokenId),
          "tokenizer.json: the id {} of the token {:?} is outside 0..{}", value, key_, kMaxTokenId);
    file_.vocab.add(key_, static_cast<TokenId>(value));
    return true;
  }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& value) override {
    if (mode_ == Mode::kMerges) return merge_line(value);
    if (mode_ != Mode::kPair) return scalar(std::move(value));
    bad_merge_unless(pair_parts_ < 2);
    pair_[pair_parts_++].swap(value);
    return true;
  }

  bool start_object(std::size_t) override {
    if (mode_ == Mode::kRest && at_model_field("vocab")) {
      CHECK(!file_.has_vocab, "tokenizer.json: model.vocab is there twice");
      file_.has_vocab = true;
      mode_ = Mode::kVocab;
      return true;
    }
    return open(json::object());
  }
  bool key(string_t& value) override {
    key_.swap(value);
    return true;
  }
  bool end_object() override {
    if (mode_ == Mode::kVocab)
      mode_ = Mode::kRest;
    else
      stack_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override {
    if (mode_ == Mode::kRest && at_model_field("merges")) {
      CHECK(!file_.has_merges, "tokenizer.json: model.merges is there twice");
      file_.has_merges = true;
      mode_ = Mode::kMerges;
      return true;
    }
    if (mode_ == Mode::kMerges) {
      mode_ = Mode::kPair;
      pair_parts_ = 0;
      return true;
    }
    return open(json::array());
  }
  bool end_array() override {
    if (mode_ == Mode::kPair) {
      bad_merge_unless(pair_parts_ == 2);
      file_.merges.add(pair_[0], pair_[1]);
      mode_ = Mode::kMerges;
    } else if (mode_ == Mode::kMerges) {
      mode_ = Mode::kRest;
    } else {
      stack_.pop_back();
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception& e) override {
    fail("tokenizer.json is not valid JSON at byte {}: {}", position, e.what());
  }

 private:
  enum class Mode { kRest, kVocab, kMerges, kPair };

  bool at_model_field(std::string_view name) const {
    return stack_.size() == 2 && key_ == name && stack_[0]->is_object() && stack_[1]->is_object() &&
           model_ == stack_[1];
  }

  json* place(json&& value) {
    if (stack_.empty()) {
      *file_.rest = std::move(value);
      return file_.rest.get();
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    json& child = parent[key_];
    child = std::move(value);
    return &child;
  }

  bool open(json&& value) {
    CHECK(mode_ == Mode::kRest, "tokenizer.json: {} has a value of the wrong kind",
          mode_ == Mode::kVocab ? "model.vocab" : "model.merges");
    CHECK(stack_.size() < 200, "tokenizer.json is nested more than 200 deep");
    const bool model = stack_.size() == 1 && stack_[0]->is_object() && key_ == "model";
    stack_.push_back(place(std::move(value)));
    if (model) model_ = stack_.back();
    return true;
  }

  bool scalar(json&& value) {
    CHECK(mode_ == Mode::kRest, "tokenizer.json: {} has a value of the wrong kind ({})",
          mode_ == Mode::kVocab ? "model.vocab" : "model.merges", value.type_name());
    place(std::move(value));
    return true;
  }

  void bad_merge_unless(bool good) const {
    CHECK(good, "tokenizer.json: merge {} does not have two parts", file_.merges.size() + 1);
  }

  bool merge_line(const std::string& line) {
    if (line.starts_with("#version")) return true;
    const std::size_t space = line.find(' ');
    bad_merge_unless(space != std::string::npos && line.find(' ', space + 1) == std::string::npos);
    file_.merges.add(std::string_view(line).substr(0, space), std::string_view(line).substr(space + 1));
    return true;
  }

  TokenizerFile& file_;
  Mode mode_ = Mode::kRest;
  std::vector<json*> stack_;  // open containers; a parent's children do not move while one of them is open
  const json* model_ = nullptr;
  std::string key_;
  std::string pair_[2];
  int pair_parts_ = 0;
};

}  // namespace

void MergeTexts::add(std::string_view left, std::string_view right) {
  bytes_ += left;
  bytes_ += right;
  lengths_.push_back(static_cast<std::uint32_t>(left.size()));
  lengths_.push_back(static_cast<std::uint32_t>(right.size()));
}

TokenizerFile::TokenizerFile() : rest(std::make_unique<json>()) {}
TokenizerFile::TokenizerFile(TokenizerFile&&) noexcept = default;
TokenizerFile::~TokenizerFile() = default;

TokenizerFile parse_tokenizer_file(std::string_view text) {
  TokenizerFile file;
  file.vocab.reserve(text.size() / 64, text.size() / 6);
  Reader reader(file);
  json::sax_parse(text.begin(), text.end(), &reader);
  CHECK(file.rest->is_object(), "tokenizer.json must be a JSON object");
  return file;
}

}  // namespace fathom
