// Which models a Hugging Face config.json may name.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace fathom {

// How a model of this "model_type" and these "architectures" is read.
enum class Family { v2, v3 };

// Throws Error naming the model when it is of another family, or when the two disagree.
Family family_of(const nlohmann::json& config, const std::string& source_name);

}  // namespace fathom
