// The "normalizer" of tokenizer.json: what is done to a text before anything is cut.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace fathom {

// A text on its way to the model.
struct NormalizedText {
  std::string text;
  bool at_start = true;  // its first character stood at the front of the whole input
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& value) const = 0;
};

// Reads one normalizer; null for JSON null and for an empty Sequence. Throws Error naming an unknown type.
std::unique_ptr<Normalizer> make_normalizer(const nlohmann::json& description);

}  // namespace fathom
