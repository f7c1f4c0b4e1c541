// What is known of the keys of configurations: every key of the published models of the family, of their Hugging Face
// modelling code and of Hugging Face's general configuration.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace fathom {

// Throws Error naming the first key with a value that asks for other arithmetic than this program's. Gives the keys
// that nobody knows ("rope_scaling.x" for those of a known object). A key that is null says nothing.
std::vector<std::string> judge_keys(const nlohmann::json& config, const std::string& source_name);

// One line about keys that nobody knows, for a person.
std::string unknown_keys_text(const std::vector<std::string>& keys, const std::string& source_name);

}  // namespace fathom
