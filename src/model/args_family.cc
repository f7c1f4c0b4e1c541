#include "model/args_family.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "checkpoint/json_text.h"

namespace fathom {
namespace {

using json = nlohmann::json;

struct Model {
  std::string_view type, architecture;
  Family family;
};

constexpr Model kModels[] = {
    {"deepseek_v2", "DeepseekV2ForCausalLM", Family::v2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", Family::v3},
    {"kimi_k2", "DeepseekV3ForCausalLM", Family::v3},
};

// Models near the family that people try.
constexpr struct {
  std::string_view name, reason;
} kForeign[] = {
    {"deepseek_v32", " (its attention goes to tokens that an indexer picks)"},
    {"DeepseekV32ForCausalLM", " (its attention goes to tokens that an indexer picks)"},
    {"kimi_k25", " (it reads images too)"},
    {"KimiK25ForConditionalGeneration", " (it reads images too)"},
    {"DeepseekV3ForCausalLMNextN", " (its MTP layers alone)"},
};

[[noreturn]] void refuse_model(const std::string& name, const std::string& source) {
  std::string_view reason;
  for (const auto& foreign : kForeign)
    if (foreign.name == name) reason = foreign.reason;
  fail("{}: this is a {} model{}; only deepseek_v2, deepseek_v3 and kimi_k2 are supported", source, shown(name),
       reason);
}

std::vector<std::string> architectures_of(const json& config, const std::string& source) {
  const auto found = config.find("architectures");
  if (found == config.end() || found->is_null()) return {};
  const bool texts =
      found->is_array() && std::all_of(found->begin(), found->end(), [](const json& item) { return item.is_string(); });
  CHECK(texts, "{}: architectures must be a list of names, not {}", source, shown_json(*found));
  return found->get<std::vector<std::string>>();
}

}  // namespace

Family family_of(const json& config, const std::string& source_name) {
  const auto type = config.find("model_type");
  const bool typed = type != config.end() && !type->is_null();
  CHECK(!typed || type->is_string(), "{}: model_type must be a text, not {}", source_name, shown_json(*type));
  const std::string type_name = typed ? type->get<std::string>() : "";
  const std::vector<std::string> architectures = architectures_of(config, source_name);
  const Model* model = nullptr;
  const auto look_up = [&](std::string_view Model::*field, const std::string& name) {
    const auto found =
        std::find_if(std::begin(kModels), std::end(kModels), [&](const Model& known) { return known.*field == name; });
    if (found == std::end(kModels)) refuse_model(name, source_name);
    CHECK(model == nullptr || model->family == found->family, "{}: model_type is {}, but architectures has {}",
          source_name, model->type, found->architecture);
    model = found;
  };
  if (typed) look_up(&Model::type, type_name);
  for (const std::string& architecture : architectures) look_up(&Model::architecture, architecture);
  if (model == nullptr) refuse_model("nameless", source_name);
  return model->family;
}

}  // namespace fathom
