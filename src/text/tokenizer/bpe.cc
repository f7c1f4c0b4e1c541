#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/json_fields.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

constexpr const char* kRole = "model";
constexpr std::size_t kShortPiece = 64;  // up to here scanning for the best pair beats a heap

std::string optional_string(const nlohmann::json& model, const char* field) {
  return model.contains(field) && !model[field].is_null() ? json_string(model, kRole, field) : std::string();
}

}  // namespace

// Collects symbols; unknown ones become the unk token, fused or not, in the order of the Rust library.
struct Bpe::Symbols {
  std::vector<TokenId>& ids;
  TokenId unk;
  bool fuse;
  bool pending = false;

  void known(TokenId id) {
    finish();
    ids.push_back(id);
  }
  void unknown() {
    if (unk < 0) return;
    if (pending && !fuse) ids.push_back(unk);
    pending = true;
  }
  void finish() {
    if (pending) ids.push_back(unk);
    pending = false;
  }
};

Bpe::Bpe(TokenizerFile&& file, bool bytes) : bytes_(bytes) {
  CHECK(file.rest->contains("model"), "tokenizer.json lacks \"model\"");
  const nlohmann::json& model = (*file.rest)["model"];
  CHECK(model.is_object(), "tokenizer.json: \"model\" must be an object");
  if (const std::string type = model.contains("type") ? json_type(model, kRole) : "BPE"; type != "BPE")
    fail("tokenizer.json: unknown model \"{}\"; only BPE is known", type);
  CHECK(file.has_vocab, "tokenizer.json: the model lacks \"vocab\"");
  CHECK(file.has_merges, "tokenizer.json: the model lacks \"merges\"");
  vocab_ = std::move(file.vocab);
  read_options(model);
  const std::vector<std::uint32_t> first_use = read_merges(file.merges);
  make_byte_tables();
  if (bytes_) make_char_table(first_use);
  whole_ = std::make_unique<std::atomic<std::uint8_t>[]>(static_cast<std::size_t>(vocab_.size()));
}

void Bpe::read_options(const nlohmann::json& model) {
  if (model.contains("dropout") && !model["dropout"].is_null()) {
    CHECK(model["dropout"].is_number() && model["dropout"].get<double>() == 0,
          "tokenizer.json: a dropout other than 0 is for training, not supported here");
  }
  fuse_unk_ = json_bool(model, kRole, "fuse_unk", false);
  byte_fallback_ = json_bool(model, kRole, "byte_fallback", false);
  ignore_merges_ = json_bool(model, kRole, "ignore_merges", false);
  prefix_ = optional_string(model, "continuing_subword_prefix");
  suffix_ = optional_string(model, "end_of_word_suffix");
  if (model.contains("unk_token") && !model["unk_token"].is_null()) {
    const std::string unk = json_string(model, kRole, "unk_token");
    unk_ = vocab_.find(unk);
    CHECK(unk_ >= 0, "tokenizer.json: the unk_token {:?} is not in the vocabulary", unk);
  }
}

std::vector<std::uint32_t> Bpe::read_merges(const MergeTexts& merges) {
  merges_ = MergeTable(merges.size());
  std::vector<std::uint32_t> first_use(static_cast<std::size_t>(vocab_.size()), MergeTable::kNone);
  std::string joined;
  TokenId c = -1;
  merges.for_each([&](std::size_t rank, std::string_view left, std::string_view right) {
    CHECK(right.size() >= prefix_.size(), "tokenizer.json: merge {} is shorter than the prefix {:?}", rank + 1,
          prefix_);
    joined = left;
    joined += right.substr(prefix_.size());
    const TokenId a = vocab_.find(left), b = vocab_.find(right);
    // Vocabularies mostly have merged tokens in the order of the merges: no search needed then.
    if (!vocab_.has(++c) || vocab_.text(c) != joined) c = vocab_.find(joined);
    CHECK(a >= 0 && b >= 0 && c >= 0, "tokenizer.json: the token {:?} of merge {} is not in the vocabulary",
          a < 0   ? left
          : b < 0 ? right
                  : std::string_view(joined),
          rank + 1);
    merges_.set(a, b, {static_cast<std::uint32_t>(rank), c});
    for (const TokenId side : {a, b}) {
      std::uint32_t& first = first_use[static_cast<std::size_t>(side)];
      first = std::min(first, static_cast<std::uint32_t>(rank));
    }
  });
  return first_use;
}

void Bpe::make_byte_tables() {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::string name;
    append_utf8(name, kByteChars[byte]);
    byte_ids_[byte] = vocab_.find(name);
    fallback_ids_[byte] = vocab_.find(fmt::format("<0x{:02X}>", byte));
  }
  to_chars_ = bytes_ && (byte_fallback_ || !prefix_.empty() || !suffix_.empty());
  if (to_chars_) bytes_ = false;
  if (!bytes_) return;
  raw_.reserve(vocab_.count(), vocab_.count() * 8);
  std::string raw;
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    raw.clear();
    if (vocab_.has(id) && append_bytes_of_chars(raw, vocab_.text(id))) raw_.add(raw, id);
  }
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  if (to_chars_) {
    scratch.text = bytes_to_chars(piece);
    piece = scratch.text;
  }
  const TokenId whole = (bytes_ ? raw_ : vocab_).find(piece);
  std::atomic<std::uint8_t>* known = whole >= 0 ? &whole_[static_cast<std::size_t>(whole)] : nullptr;
  if (known != nullptr && (ignore_merges_ || known->load(std::memory_order_relaxed) == 1)) {
    out.push_back(whole);
    return;
  }
  merge(piece, scratch);
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
  if (known != nullptr) {
    const bool same = scratch.ids.size() == 1 && scratch.ids[0] == whole;
    known->store(same ? 1 : 2, std::memory_order_relaxed);
  }
}

void Bpe::split_bytes(std::string_view piece, Symbols& symbols) const {
  for (std::size_t at = 0; at < piece.size();) {
    const auto byte = static_cast<unsigned char>(piece[at]);
    if (byte >= 0xC2 && byte < 0xF0) {
      std::size_t end = at;
      if (const TokenId id = char_ids_[next_char(piece, end)]; id >= 0) {
        symbols.known(id);
        at = end;
        continue;
      }
    }
    const TokenId id = byte_ids_[byte];
    id >= 0 ? symbols.known(id) : symbols.unknown();
    ++at;
  }
}

bool Bpe::fall_back_to_bytes(std::string_view text, std::vector<TokenId>& ids) const {
  const auto id_of = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
  if (!std::all_of(text.begin(), text.end(), [&](char byte) { return id_of(byte) >= 0; })) return false;
  for (const char byte : text) ids.push_back(id_of(byte));
  return true;
}

void Bpe::split_chars(std::string_view piece, Symbols& symbols) const {
  std::string decorated;
  for (std::size_t at = 0; at < piece.size();) {
    const auto length = static_cast<std::size_t>(utf8_length(static_cast<unsigned char>(piece[at])));
    std::string_view text = piece.substr(at, length);
    const bool first = at == 0, last = at + length == piece.size();
    if ((!first && !prefix_.empty()) || (last && !suffix_.empty())) {
      decorated = (first ? "" : prefix_) + std::string(text) + (last ? suffix_ : "");
      text = decorated;
    }
    at += length;
    const TokenId id = vocab_.find(text);
    if (id >= 0)
      symbols.known(id);
    else if (!byte_fallback_ || !fall_back_to_bytes(text, symbols.ids))
      symbols.unknown();
  }
}

void Bpe::merge(std::string_view piece, Scratch& scratch) const {
  scratch.ids.clear();
  Symbols symbols{scratch.ids, unk_, fuse_unk_};
  bytes_ ? split_bytes(piece, symbols) : split_chars(piece, symbols);
  symbols.finish();
  if (scratch.ids.size() < 2) return;
  scratch.ids.size() <= kShortPiece ? merge_short(scratch) : merge_long(scratch);
}

void Bpe::merge_short(Scratch& scratch) const {
  TokenId ids[kShortPiece];
  MergeTable::Merge merges[kShortPiece];  // [i]: of ids[i] and ids[i + 1]
  std::size_t n = scratch.ids.size();
  std::copy(scratch.ids.begin(), scratch.ids.end(), ids);
  for (std::size_t i = 0; i + 1 < n; ++i) merges[i] = merges_.find(ids[i], ids[i + 1]);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (merges[i].rank < merges[best].rank) best = i;
    if (merges[best].rank == MergeTable::kNone) break;
    ids[best] = merges[best].id;
    std::copy(ids + best + 2, ids + n, ids + best + 1);
    if (best + 2 < n) std::copy(merges + best + 2, merges + n - 1, merges + best + 1);
    --n;
    if (best + 1 < n) merges[best] = merges_.find(ids[best], ids[best + 1]);
    if (best > 0) merges[best - 1] = merges_.find(ids[best - 1], ids[best]);
  }
  scratch.ids.assign(ids, ids + n);
}

// The same by a heap over a linked list: n log n for any length. An entry whose rank is no longer the one noted at its
// position is stale.
void Bpe::merge_long(Scratch& scratch) const {
  std::vector<TokenId>& ids = scratch.ids;
  std::vector<std::uint32_t>& ranks = scratch.ranks;
  std::vector<std::int32_t>&next = scratch.next, &previous = scratch.previous;
  std::vector<std::uint64_t>& heap = scratch.heap;
  const std::size_t n = ids.size();
  CHECK(n < 0x7FFFFFFF, "a piece of {} symbols is too long to encode", n);
  ranks.assign(n, MergeTable::kNone);
  next.resize(n);
  previous.resize(n);
  heap.clear();
  for (std::size_t i = 0; i < n; ++i) {
    next[i] = i + 1 < n ? static_cast<std::int32_t>(i + 1) : -1;
    previous[i] = static_cast<std::int32_t>(i) - 1;
    if (i + 1 < n) ranks[i] = merges_.find(ids[i], ids[i + 1]).rank;
    if (ranks[i] != MergeTable::kNone) heap.push_back((static_cast<std::uint64_t>(ranks[i]) << 32) | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto update = [&](std::size_t i) {
    const std::int32_t right = next[i];
    ranks[i] = right < 0 ? MergeTable::kNone : merges_.find(ids[i], ids[static_cast<std::size_t>(right)]).rank;
    if (ranks[i] == MergeTable::kNone) return;
    heap.push_back((static_cast<std::uint64_t>(ranks[i]) << 32) | i);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t entry = heap.back();
    heap.pop_back();
    const auto i = static_cast<std::size_t>(entry & 0xFFFFFFFF);
    if (ranks[i] != static_cast<std::uint32_t>(entry >> 32)) continue;
    const auto right = static_cast<std::size_t>(next[i]);
    ids[i] = merges_.find(ids[i], ids[right]).id;
    ranks[right] = MergeTable::kNone;
    ids[right] = -1;  // gone
    next[i] = next[right];
    if (next[i] >= 0) previous[static_cast<std::size_t>(next[i])] = static_cast<std::int32_t>(i);
    update(i);
    if (previous[i] >= 0) update(static_cast<std::size_t>(previous[i]));
  }
  ids.erase(std::remove(ids.begin(), ids.end(), -1), ids.end());
}

}  // namespace fathom
