// Which characters may be taken as one symbol from the start.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/tokenizer/bpe.h"
#include "text/unicode/utf8.h"

namespace fathom {
namespace {

bool is_continuation(char byte) { return (byte & 0xC0) == 0x80; }

// Parts of characters at which tokens end or begin that reach beyond the character.
struct BrokenEdges {
  std::unordered_set<std::string> tails, heads;

  void add(std::string_view token) {
    std::size_t head = 0;
    while (head < token.size() && is_continuation(token[head])) ++head;
    if (head > 0 && head < token.size()) heads.emplace(token.substr(0, head));
    std::size_t last = token.size();
    while (last > 0 && is_continuation(token[last - 1])) --last;
    if (last < 2) return;  // no lead byte, or nothing before it
    --last;
    const auto length = static_cast<std::size_t>(utf8_length(static_cast<unsigned char>(token[last])));
    if (token.size() - last < length) tails.emplace(token.substr(last));
  }

  bool touch(std::string_view character) const {
    for (std::size_t n = 1; n < character.size(); ++n) {
      if (tails.contains(std::string(character.substr(0, n)))) return true;
      if (heads.contains(std::string(character.substr(n)))) return true;
    }
    return false;
  }
};

}  // namespace

// A character may be joined first if (1) no token joins a part of it with anything outside, so that its bytes are
// merged among themselves whatever stands beside it, (2) they become one token, and (3) every merge of that token with
// a neighbour ranks after those, so that having it earlier brings no merge forward.
void Bpe::make_char_table(const std::vector<std::uint32_t>& first_use) {
  char_ids_.assign(0x10000, -1);
  BrokenEdges edges;
  for (TokenId id = 0; id < raw_.size(); ++id)
    if (raw_.has(id)) edges.add(raw_.text(id));
  for (TokenId id = 0; id < raw_.size(); ++id) {
    if (!raw_.has(id)) continue;
    const std::string_view bytes = raw_.text(id);
    const bool one = bytes.size() >= 2 && bytes.size() <= 3 && is_valid_utf8(bytes) &&
                     utf8_length(static_cast<unsigned char>(bytes[0])) == static_cast<int>(bytes.size());
    if (!one || edges.touch(bytes)) continue;
    std::uint32_t last_rank = 0;
    if (!joins_to(bytes, id, last_rank) || first_use[static_cast<std::size_t>(id)] <= last_rank) continue;
    std::size_t at = 0;
    char_ids_[next_char(bytes, at)] = id;
  }
}

// Whether the bytes alone become this token; `last_rank` is the largest rank on the way.
bool Bpe::joins_to(std::string_view bytes, TokenId id, std::uint32_t& last_rank) const {
  std::vector<TokenId> ids;
  for (const char byte : bytes) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  while (ids.size() > 1) {
    std::size_t best = 0;
    MergeTable::Merge merge{MergeTable::kNone, -1};
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const MergeTable::Merge found = merges_.find(ids[i], ids[i + 1]);
      if (found.rank < merge.rank) merge = found, best = i;
    }
    if (merge.rank == MergeTable::kNone) return false;
    last_rank = std::max(last_rank, merge.rank);
    ids[best] = merge.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  return ids[0] == id;
}

}  // namespace fathom
