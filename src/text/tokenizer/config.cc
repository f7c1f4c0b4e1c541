#include "text/tokenizer/config.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/tokenizer/json_fields.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr const char* kRole = "post-processor";

std::vector<TokenId> template_ids(const json& description, const std::string& name) {
  CHECK(description.contains("special_tokens") && description["special_tokens"].contains(name),
        "tokenizer.json: the template of the post-processor uses {:?}, which its special_tokens lack", name);
  std::vector<TokenId> ids;
  for (const json& id : json_array(description["special_tokens"][name], "special token", "ids")) {
    CHECK(id.is_number_unsigned() && id.get<std::uint64_t>() < (1u << 30),
          "tokenizer.json: the special token {:?} of the post-processor has the id {}", name, id.dump());
    ids.push_back(id.get<int>());
  }
  return ids;
}

SpecialTemplate read_template(const json& description) {
  SpecialTemplate out;
  int sequences = 0;
  for (const json& piece : json_array(description, kRole, "single")) {
    CHECK(piece.is_object() && piece.size() == 1, "tokenizer.json: a piece of the post-processor's template is {}",
          piece.dump());
    const std::string kind = piece.begin().key();
    if (kind == "Sequence") {
      ++sequences;
    } else {
      CHECK(kind == "SpecialToken", "tokenizer.json: unknown template piece \"{}\"", kind);
      const std::vector<TokenId> ids = template_ids(description, json_string(piece[kind], kRole, "id"));
      std::vector<TokenId>& side = sequences == 0 ? out.before : out.after;
      side.insert(side.end(), ids.begin(), ids.end());
    }
  }
  CHECK(sequences == 1, "tokenizer.json: the post-processor's template has the text {} times, not once", sequences);
  return out;
}

// Puts the template that the description holds, if any, into `out`.
void read(const json& description, int depth, std::optional<SpecialTemplate>& out) {
  CHECK(depth <= kMaxNesting, "tokenizer.json: post-processors are nested more than {} deep", kMaxNesting);
  if (description.is_null()) return;
  const std::string type = json_type(description, kRole);
  if (type == "ByteLevel") return;
  if (type == "TemplateProcessing") {
    CHECK(!out, "tokenizer.json: the post-processor has two templates; only one can surround a text");
    out = read_template(description);
    return;
  }
  if (type != "Sequence") fail("tokenizer.json: unknown post-processor \"{}\"", type);
  for (const json& part : json_array(description, kRole, "processors")) read(part, depth + 1, out);
}

// A token is a string or an object with "content"; anything else names none.
std::string token_of(const json& config, const char* field) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  CHECK(found->is_object() && found->contains("content") && (*found)["content"].is_string(),
        "tokenizer_config.json: \"{}\" must be a string or an object with \"content\", not {}", field, found->dump());
  return (*found)["content"].get<std::string>();
}

std::optional<bool> flag_of(const json& config, const char* field) {
  const auto found = config.find(field);
  if (found == config.end() || found->is_null()) return std::nullopt;
  CHECK(found->is_boolean(), "tokenizer_config.json: \"{}\" must be true or false, not {}", field, found->dump());
  return found->get<bool>();
}

}  // namespace

SpecialTemplate read_post_processor(const json& description) {
  std::optional<SpecialTemplate> out;
  read(description, 0, out);
  return out.value_or(SpecialTemplate());
}

TokenizerConfig read_tokenizer_config(std::string_view text) {
  json config;
  try {
    config = json::parse(text);
  } catch (const json::exception& e) {
    fail("tokenizer_config.json is not valid JSON: {}", e.what());
  }
  CHECK(config.is_object(), "tokenizer_config.json must be a JSON object");
  TokenizerConfig out;
  out.bos_token = token_of(config, "bos_token");
  out.eos_token = token_of(config, "eos_token");
  out.pad_token = token_of(config, "pad_token");
  out.unk_token = token_of(config, "unk_token");
  out.add_bos_token = flag_of(config, "add_bos_token");
  out.add_eos_token = flag_of(config, "add_eos_token");
  return out;
}

}  // namespace fathom
