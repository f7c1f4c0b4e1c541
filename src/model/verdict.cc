#include "model/verdict.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_set>

#include "model/manifest.h"

namespace fathom {
namespace {

// Frequencies and tables of the rotation, which some programs save with the weights.
bool is_derived(std::string_view name) {
  constexpr std::array kNames = {".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](const char* part) { return name.find(part) != std::string_view::npos; });
}

// Plain numbers are read from either type, whatever the configuration says.
bool fits(DType stored, DType wanted) {
  const auto plain = [](DType dtype) { return dtype == DType::bf16 || dtype == DType::f32; };
  return stored == wanted || (plain(stored) && plain(wanted));
}

// What the files have of the same module, for a tensor that they do not have: such as scales under another name.
std::string instead(const std::string& name, std::span<const std::string> others) {
  const std::string module = name.substr(0, name.rfind('.') + 1);
  for (const std::string& other : others)
    if (!module.empty() && other.starts_with(module) && other.find('.', module.size()) == std::string::npos)
      return fmt::format("{} (there is {})", name, other);
  if (name == "lm_head.weight") return name + " (tie_word_embeddings is false)";
  return name;
}

std::string more(std::size_t count, std::size_t named) {
  return count > named ? fmt::format(" (and {} more)", count - named) : std::string();
}

}  // namespace

Verdict judge(const ModelArgs& args, const Checkpoint& checkpoint, bool mtp, int rank) {
  Verdict verdict;
  const std::vector<std::string> untranslated = checkpoint.untranslated();
  const auto entries = manifest(args, rank, checkpoint.shards(), true, &checkpoint);
  std::unordered_set<std::string> known;  // as the files call them: two tensors may be one of theirs
  for (const ManifestEntry& entry : entries) {
    const std::string name = checkpoint.stored_name(entry.full.name);
    known.insert(name);
    if (entry.group == "mtp" && !mtp) continue;
    const TensorInfo* found = checkpoint.find(entry.full.name);
    const Shape wanted = checkpoint.shards() > 1 ? entry.shape() : entry.full.shape;
    if (found == nullptr)
      verdict.missing.push_back(instead(name, untranslated));
    else if (found->shape != wanted || !fits(found->dtype, entry.full.dtype))
      verdict.mismatched.push_back(fmt::format("{} is {} {}, the configuration says {} {}", name, found->type(),
                                               to_string(found->shape), name_of(entry.full.dtype), to_string(wanted)));
  }
  for (const TensorInfo& info : checkpoint.tensors())
    if (std::string name = checkpoint.stored_name(info.name); !known.contains(name)) verdict.strays.push_back(name);
  for (const std::string& name : untranslated) (is_derived(name) ? verdict.derived : verdict.strays).push_back(name);
  return verdict;
}

void require_sound(const Verdict& verdict, const std::string& source, bool ignore_unused) {
  const auto& [missing, mismatched, strays, derived] = verdict;
  CHECK(missing.empty(), "{} is incomplete: tensor {} is missing{}", source, missing.front(), more(missing.size(), 1));
  CHECK(mismatched.empty(), "{}: tensor {}{}; is the configuration this model's?", source, mismatched.front(),
        more(mismatched.size(), 1));
  if (strays.empty() || ignore_unused) return;
  const std::span named(strays.data(), std::min<std::size_t>(3, strays.size()));
  fail(
      "{} has {} tensor{} that the model of its configuration does not have: {}{}; it may be another model "
      "(--ignore-unused loads it without them)",
      source, strays.size(), strays.size() == 1 ? "" : "s", fmt::join(named, ", "), more(strays.size(), named.size()));
}

std::string mtp_layers_text(const ModelArgs& args) {
  std::vector<i64> layers;
  for (i64 i = 0; i < args.n_mtp_layers; ++i) layers.push_back(args.n_layers + i);
  return layers.empty() ? "" : fmt::format("MTP layer{} {}", layers.size() == 1 ? "" : "s", fmt::join(layers, ", "));
}

}  // namespace fathom
