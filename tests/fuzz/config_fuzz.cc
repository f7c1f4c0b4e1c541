// Any bytes as a configuration: refused with Error, or arguments that are in bounds, can be written and read back.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/args.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fathom;
  try {
    const ModelArgs args = parse_model_args(std::string_view(reinterpret_cast<const char*>(data), size), "input");
    const auto written = to_json(args);
    if (to_json(parse_model_args(written.dump(), "written")) != written) std::abort();
    if (!(args.softmax_scale() > 0)) std::abort();
    // max_batch_size is no part of a config.json.
    ModelArgs again = parse_model_args(to_hf_config(args).dump(), "config.json");
    again.max_batch_size = args.max_batch_size;
    if (again.n_layers != args.n_layers || again.softmax_scale() != args.softmax_scale()) std::abort();
    try {
      args.validate_world_size(1 + static_cast<int>(size % 16));
    } catch (const Error&) {
    }
  } catch (const Error&) {
  }
  return 0;
}
