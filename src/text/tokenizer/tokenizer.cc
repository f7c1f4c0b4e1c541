#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/model_folder.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/config.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/tiktoken_file.h"
#include "text/tokenizer/tokenizer_file.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

const nlohmann::json& field_or_null(const nlohmann::json& object, const char* name, const nlohmann::json& null) {
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

std::string read_if_there(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) ? read_model_file(path) : std::string();
}

std::optional<TokenId> id_or_nothing(TokenId id) { return id < 0 ? std::nullopt : std::optional<TokenId>(id); }

}  // namespace

struct Tokenizer::Parts {
  Parts(TokenizerFile&& file, const TokenizerConfig& settings, const nlohmann::json& null)
      : normalizer(make_normalizer(field_or_null(*file.rest, "normalizer", null))),
        pre_tokenizer(field_or_null(*file.rest, "pre_tokenizer", null)),
        decoder(field_or_null(*file.rest, "decoder", null)),
        special_template(read_post_processor(field_or_null(*file.rest, "post_processor", null))),
        added(field_or_null(*file.rest, "added_tokens", null), file.vocab, normalizer.get()),
        bpe(std::move(file), pre_tokenizer.ends_in_bytes()),
        config(settings) {
    read_special_ids();
  }

  TokenId find(const std::string& token) const {
    const TokenId id = added.find(token);
    return id >= 0 ? id : bpe.vocab().find(token);
  }

  void read_special_ids() {
    bos = config.bos_token.empty() ? -1 : find(config.bos_token);
    eos = config.eos_token.empty() ? -1 : find(config.eos_token);
    pad = config.pad_token.empty() ? -1 : find(config.pad_token);
    const std::vector<TokenId>& before = special_template.before;
    if (config.bos_token.empty() && before.size() == 1) bos = before[0];
    adds_bos = config.add_bos_token.value_or(bos >= 0 && std::count(before.begin(), before.end(), bos) > 0);
    adds_eos = config.add_eos_token.value_or(
        eos >= 0 && std::count(special_template.after.begin(), special_template.after.end(), eos) > 0);
    CHECK(!adds_bos || bos >= 0,
          "tokenizer_config.json asks for a BOS, but its bos_token {:?} is not in the vocabulary", config.bos_token);
    CHECK(!adds_eos || eos >= 0,
          "tokenizer_config.json asks for an EOS, but its eos_token {:?} is not in the vocabulary", config.eos_token);
  }

  // Calls on_text(piece) for each text between added tokens, normalised, and on_added(text, id) for each of them, in
  // order.
  template <typename OnText, typename OnAdded>
  void cut(std::string_view text, AddedTokens mode, const OnText& on_text, const OnAdded& on_added) const {
    std::string mended;
    if (!is_valid_utf8(text)) text = mended = to_valid_utf8(text);
    std::vector<fathom::AddedTokens::Segment> segments, inner;
    const auto cut_at_tokens = [&](std::string_view whole, bool normalized, auto& out) {
      out.clear();
      if (mode == AddedTokens::recognise && added.any(normalized))
        added.split(whole, normalized, out);
      else if (!whole.empty())
        out.push_back({whole});
    };
    cut_at_tokens(text, false, segments);
    for (const auto& segment : segments) {
      if (segment.id >= 0) {
        on_added(segment.text, segment.id);
        continue;
      }
      NormalizedText normal{{}, segment.text.data() == text.data()};
      std::string_view view = segment.text;
      if (normalizer) {
        normal.text = view;
        normalizer->apply(normal);
        view = normal.text;
      }
      cut_at_tokens(view, true, inner);
      for (const auto& part : inner) {
        if (part.id >= 0) {
          on_added(part.text, part.id);
          continue;
        }
        on_text(Piece{part.text, normal.at_start && part.text.data() == view.data()});
      }
    }
  }

  std::unique_ptr<Normalizer> normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  SpecialTemplate special_template;
  fathom::AddedTokens added;
  Bpe bpe;
  TokenizerConfig config;
  TokenId bos = -1, eos = -1, pad = -1;
  bool adds_bos = false, adds_eos = false;
};

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path_of_model) {
  const std::filesystem::path model_dir = model_directory(path_of_model);
  const std::filesystem::path path = model_dir / "tokenizer.json", ranks = model_dir / "tiktoken.model";
  const bool whole = std::filesystem::exists(path);
  CHECK(whole || std::filesystem::exists(ranks),
        "{} has no tokenizer.json and no tiktoken.model; copy one there from the model's files", model_dir.string());
  try {
    const std::string config = read_if_there(model_dir / "tokenizer_config.json");
    if (whole) return parse(read_model_file(path), config);
    return parse_tiktoken(read_model_file(ranks), config, read_if_there(find_tokenizer_code(model_dir)));
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", model_dir.string(), e.what()), e.where());
  }
}

Tokenizer Tokenizer::parse(std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
  TokenizerFile file = parse_tokenizer_file(tokenizer_json);
  TokenizerConfig config;
  if (!tokenizer_config_json.empty()) config = read_tokenizer_config(tokenizer_config_json);
  return Tokenizer(std::make_unique<const Parts>(std::move(file), config, nlohmann::json()));
}

Tokenizer Tokenizer::parse_tiktoken(std::string_view model, std::string_view tokenizer_config_json,
                                    std::string_view code) {
  TokenizerFile file = read_tiktoken(model, tokenizer_config_json, code);
  TokenizerConfig config;
  if (!tokenizer_config_json.empty()) config = read_tokenizer_config(tokenizer_config_json);
  return Tokenizer(std::make_unique<const Parts>(std::move(file), config, nlohmann::json()));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddedTokens mode) const {
  std::vector<TokenId> ids;
  Bpe::Scratch scratch;
  PieceList pieces;
  parts_->cut(
      text, mode,
      [&](const Piece& whole) {
        pieces.texts.clear();
        parts_->pre_tokenizer.split(whole, pieces);
        for (const Piece& piece : pieces.pieces) parts_->bpe.encode(piece.text, scratch, ids);
      },
      [&](std::string_view, TokenId id) { ids.push_back(id); });
  return ids;
}

std::vector<TokenId> Tokenizer::encode_with_bos(std::string_view text) const {
  std::vector<TokenId> ids = encode(text);
  if (parts_->adds_bos && (ids.empty() || ids[0] != parts_->bos)) ids.insert(ids.begin(), parts_->bos);
  return ids;
}

std::vector<TokenId> Tokenizer::encode_with_template(std::string_view text) const {
  const auto& [before, after] = parts_->special_template;
  std::vector<TokenId> ids = encode(text);
  ids.insert(ids.begin(), before.begin(), before.end());
  ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

std::vector<Tokenizer::Explained> Tokenizer::explain(std::string_view text, AddedTokens mode) const {
  std::vector<Explained> out;
  Bpe::Scratch scratch;
  parts_->cut(
      text, mode,
      [&](const Piece& whole) {
        for (PreTokenizer::Explained& piece : parts_->pre_tokenizer.explain(whole)) {
          out.push_back({std::move(piece.text), {}, false, piece.rule.empty() ? "uncut" : std::string(piece.rule)});
          parts_->bpe.encode(out.back().piece, scratch, out.back().ids);
        }
      },
      [&](std::string_view token, TokenId id) {
        out.push_back({std::string(token), {id}, true, "added token"});
      });
  return out;
}

std::optional<std::string> Tokenizer::decoder_token(TokenId id, bool skip_special) const {
  std::string text;
  if (const AddedToken* token = parts_->added.by_id(id))
    text = token->normalized ? token->normalized_content : token->content;
  else if (parts_->bpe.vocab().has(id))
    text = parts_->bpe.vocab().text(id);
  else
    return std::nullopt;
  if (skip_special && parts_->added.is_special(text)) return std::nullopt;
  return text;
}

DecoderStream Tokenizer::decoder_stream() const { return parts_->decoder.stream(); }

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string out;
  DecoderStream stream = decoder_stream();
  for (const TokenId id : ids)
    if (const auto token = decoder_token(id, skip_special)) stream.push(*token, out);
  stream.finish(out);
  return out;
}

std::string Tokenizer::token_text(TokenId id) const {
  if (const AddedToken* token = parts_->added.by_id(id)) return token->content;
  return parts_->bpe.vocab().has(id) ? std::string(parts_->bpe.vocab().text(id)) : std::string();
}

std::string Tokenizer::token_bytes(TokenId id) const {
  const auto token = decoder_token(id, false);
  return token ? parts_->decoder.token_bytes(*token) : std::string();
}

int Tokenizer::vocab_size() const { return std::max(parts_->bpe.vocab().size(), parts_->added.size()); }

std::optional<TokenId> Tokenizer::token_id(std::string_view token) const {
  return id_or_nothing(parts_->find(std::string(token)));
}

bool Tokenizer::is_special(TokenId id) const {
  const auto token = decoder_token(id, false);
  return token && parts_->added.is_special(*token);
}

std::optional<TokenId> Tokenizer::bos_id() const { return id_or_nothing(parts_->bos); }
std::optional<TokenId> Tokenizer::eos_id() const { return id_or_nothing(parts_->eos); }
std::optional<TokenId> Tokenizer::pad_id() const { return id_or_nothing(parts_->pad); }
const std::string& Tokenizer::bos_token() const { return parts_->config.bos_token; }
const std::string& Tokenizer::eos_token() const { return parts_->config.eos_token; }
const std::string& Tokenizer::pad_token() const { return parts_->config.pad_token; }
const std::string& Tokenizer::unk_token() const { return parts_->config.unk_token; }
bool Tokenizer::adds_bos() const { return parts_->adds_bos; }
bool Tokenizer::adds_eos() const { return parts_->adds_eos; }

}  // namespace fathom
