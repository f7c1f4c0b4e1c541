// The fields of ModelArgs by name, for reading and writing them as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/args.h"

namespace fathom {

struct ArgsField {
  std::string_view name;
  std::variant<i64 ModelArgs::*, double ModelArgs::*, bool ModelArgs::*, std::string ModelArgs::*,
               std::vector<i64> ModelArgs::*>
      member;
  bool derived = false;  // not a field of the reference: it follows by a rule unless a file states it
};

// All fields, the reference's first and in its order.
std::span<const ArgsField> args_fields();

// Sets the derived fields as the reference's code does, from its own fields.
void apply_reference_rules(ModelArgs& args);

// Reads a Hugging Face config.json that is already parsed.
ModelArgs parse_hf_config(const nlohmann::json& config, const std::string& source_name);

// Reads "eos_token_id" of config.json or generation_config.json: an id, a list of ids, or null.
std::vector<i64> parse_eos_ids(const nlohmann::json& config, const std::string& source_name);

// An integer or a real number of a JSON value; throws Error naming the field and the value otherwise.
i64 json_integer(const nlohmann::json& value, std::string_view field, const std::string& source_name);
double json_real(const nlohmann::json& value, std::string_view field, const std::string& source_name);

}  // namespace fathom
