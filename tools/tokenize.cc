#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/tokenizer/tokenizer.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/input.h"
#include "tools/output.h"

namespace fathom {
namespace {

using nlohmann::json;

struct TokenizeOptions {
  std::string model;
  bool jsonl = false, decode = false, no_bos = false, no_added = false, keep_special = false, explain = false;
  bool with_special = false;
};

template <typename Json>
std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

json parse_input(const std::string& text, i64 line) {
  try {
    return json::parse(text);
  } catch (const json::exception& e) {
    if (line > 0) fail("line {} of the input is not valid JSON: {}", line, e.what());
    fail("the input is not valid JSON: {}", e.what());
  }
}

// The ids of an input array; `line` 0 stands for the whole input.
std::vector<TokenId> read_ids(const std::string& text, i64 line) {
  const json value = parse_input(text, line);
  const std::string where = line > 0 ? fmt::format("line {} of the input", line) : "the input";
  CHECK(value.is_array(), "{} must be a JSON array of ids, not {}", where, value.type_name());
  std::vector<TokenId> ids;
  for (const json& id : value) {
    CHECK(id.is_number_integer() && id >= 0 && id <= 0x7FFFFFFF, "{} has {} where an id should be", where, dump(id));
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

class Tokenize {
 public:
  explicit Tokenize(const TokenizeOptions& options) : options_(options), tokenizer_(Tokenizer::load(options.model)) {}

  void run() {
    if (options_.jsonl) {
      OutputBuffer out;
      i64 number = 0;
      while (const auto line = read_input_line()) out.write(converted(*line, ++number) + "\n");
      return out.finish();
    }
    const std::string input = read_input();
    write_output(options_.decode ? tokenizer_.decode(read_ids(input, 0), !options_.keep_special)
                                 : encoded(input) + "\n");
  }

 private:
  std::string converted(const std::string& line, i64 number) const {
    if (options_.decode) return dump(json(tokenizer_.decode(read_ids(line, number), !options_.keep_special)));
    const json value = parse_input(line, number);
    CHECK(value.is_string(), "line {} of the input must be a JSON string, not {}", number, value.type_name());
    return encoded(value.get_ref<const std::string&>());
  }

  std::string encoded(const std::string& text) const {
    if (options_.explain) return explained(text);
    if (options_.with_special) return dump(json(tokenizer_.encode_with_template(text)));
    if (options_.no_added || options_.no_bos) return dump(json(bare_ids(text)));
    return dump(json(tokenizer_.encode_with_bos(text)));
  }

  std::vector<TokenId> bare_ids(const std::string& text) const {
    std::vector<TokenId> ids = tokenizer_.encode(text, mode());
    if (!options_.no_bos && tokenizer_.adds_bos()) ids.insert(ids.begin(), *tokenizer_.bos_id());
    return ids;
  }

  // An array of the pieces, one a line unless all has to be on one.
  std::string explained(const std::string& text) const {
    std::vector<Tokenizer::Explained> rows = tokenizer_.explain(text, mode());
    const bool has_bos = !rows.empty() && rows[0].ids == std::vector<TokenId>{tokenizer_.bos_id().value_or(-1)};
    if (!options_.no_bos && tokenizer_.adds_bos() && (options_.no_added || !has_bos))
      rows.insert(rows.begin(), {"", {*tokenizer_.bos_id()}, true, "BOS of the model"});
    std::string out;
    for (const auto& row : rows) out += (out.empty() ? "" : options_.jsonl ? ", " : ",\n ") + dump(describe(row));
    return "[" + out + "]";
  }

  // Rule: what cut the piece out. Tokens: as the vocabulary has them; bytes: what each of them stands for.
  nlohmann::ordered_json describe(const Tokenizer::Explained& row) const {
    json tokens = json::array(), bytes = json::array();
    for (const TokenId id : row.ids) {
      tokens.push_back(tokenizer_.token_text(id));
      json numbers = json::array();
      for (const char byte : tokenizer_.token_bytes(id)) numbers.push_back(static_cast<unsigned char>(byte));
      bytes.push_back(std::move(numbers));
    }
    return {{"piece", row.piece}, {"rule", row.rule}, {"ids", row.ids},
            {"tokens", tokens},   {"bytes", bytes},   {"added", row.added}};
  }

  Tokenizer::AddedTokens mode() const {
    return options_.no_added ? Tokenizer::AddedTokens::ignore : Tokenizer::AddedTokens::recognise;
  }

  const TokenizeOptions& options_;
  Tokenizer tokenizer_;
};

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  Command command(app, "tokenize", "Turn text on standard input into token ids, or ids into text");
  command.option("--model", options->model, "Folder with tokenizer.json").required();
  command.flag("--jsonl", options->jsonl, "One JSON string a line in, one JSON array of ids a line out");
  Flag decode = command.flag("--decode", options->decode, "The other way: JSON arrays of ids to text");
  const Flag no_bos =
      command.flag("--no-bos", options->no_bos, "Do not put a BOS in front where the model asks for one");
  const Flag no_added =
      command.flag("--no-added-tokens", options->no_added, "Take the text of added tokens as text like any other");
  command.flag("--keep-special", options->keep_special, "Write special tokens out when decoding").needs(decode);
  const Flag explain =
      command.flag("--explain", options->explain, "Show each piece of the text, its ids, and what cut it out");
  decode.excludes(no_bos).excludes(no_added).excludes(explain);
  command
      .flag("--add-special-tokens", options->with_special,
            "Put around the text what the post-processor of tokenizer.json says, BOS or not")
      .excludes(no_bos)
      .excludes(no_added)
      .excludes(decode)
      .excludes(explain);
  command.run([options] { Tokenize(*options).run(); });
}

}  // namespace fathom
