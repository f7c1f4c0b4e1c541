#include "tools/inspect_format.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/bytes_text.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kGroups[] = {"embedding", "attention", "dense", "shared", "routed",
                                   "gate",      "norm",      "head",  "mtp"};

std::string billions(i64 n) {
  if (n >= 1'000'000'000) return fmt::format("{:.3f} B", static_cast<double>(n) / 1e9);
  return fmt::format("{:.3f} M", static_cast<double>(n) / 1e6);
}

void add_line(std::string& text, std::string_view name, const std::string& value) {
  text += fmt::format("{:<16} {}\n", name, value);
}

std::string architecture(const ModelArgs& args) {
  const bool v3 = args.score_func == "sigmoid" || args.gate_bias;
  return fmt::format(
      "{} ({} layers, {} dense; width {}; {} heads; {} experts, {} active, {} shared; {} routing{}{})",
      v3 ? "DeepSeek-V3" : "DeepSeek-V2", args.n_layers, args.n_dense_layers, args.dim, args.n_heads,
      args.n_routed_experts, args.n_activated_experts, args.n_shared_experts, args.score_func,
      args.gate_bias ? " with bias" : "",
      args.n_expert_groups > 1 ? fmt::format(", {} of {} groups", args.n_limited_groups, args.n_expert_groups) : "");
}

std::string format_text(const InspectReport& report) {
  std::string text(report.args.format().name());
  for (const auto& [type, bytes] : report.type_bytes) text += fmt::format(", {} in {}", bytes_text(bytes), type);
  return text;
}

std::string context_text(const ModelArgs& args) {
  std::string text = fmt::format("{} tokens", args.max_seq_len);
  if (args.yarn) text += fmt::format(" (YaRN factor {} over {})", args.rope_factor, args.original_seq_len);
  return text;
}

void add_groups(std::string& text, const InspectReport& report) {
  text += fmt::format("\n{:<16} {:>14} {:>12}\n", "group", "parameters", "bytes");
  for (const char* group : kGroups) {
    const auto found = report.group_parameters.find(group);
    if (found == report.group_parameters.end()) continue;
    text +=
        fmt::format("{:<16} {:>14} {:>12}\n", group, billions(found->second), bytes_text(report.group_bytes.at(group)));
  }
  text += fmt::format("{:<16} {:>14} {:>12}\n\n", "all", billions(report.parameters + report.mtp_parameters),
                      bytes_text(report.bytes));
}

void add_memory(std::string& text, const InspectReport& report) {
  if (!report.tp_obstacle.empty()) {
    add_line(text, "memory", fmt::format("not for {} ranks: {}", report.tp, report.tp_obstacle));
    return;
  }
  add_line(text, "memory a rank",
           fmt::format("{} weights + {} cache = {} ({} ranks, {} sequences of {} tokens)",
                       bytes_text(report.rank_weight_bytes), bytes_text(report.rank_cache_bytes),
                       bytes_text(report.rank_weight_bytes + report.rank_cache_bytes), report.tp, report.max_batch_size,
                       report.max_seq_len));
  add_line(text, "cache a token", fmt::format("{} bytes", report.cache_bytes_per_token));
}

void add_list(std::string& text, std::string_view name, const std::vector<std::string>& list) {
  constexpr std::size_t kMost = 10;
  if (list.empty()) return;
  text += fmt::format("{} ({}):\n", name, list.size());
  for (std::size_t i = 0; i < std::min(list.size(), kMost); ++i) text += fmt::format("  {}\n", list[i]);
  if (list.size() > kMost) text += fmt::format("  ... and {} more\n", list.size() - kMost);
}

void add_files(std::string& text, const InspectReport& report) {
  i64 bytes = 0, tensors = 0;
  for (const InspectFile& file : report.files) bytes += file.bytes, tensors += file.tensors;
  add_line(text, "files",
           fmt::format("{} with {} tensors, {}{}", report.files.size(), tensors, bytes_text(bytes),
                       report.shards > 1 ? fmt::format(", cut for {} ranks", report.shards) : ""));
  add_list(text, "missing tensors", report.missing);
  add_list(text, "tensors that differ from the configuration", report.mismatched);
  add_list(text, "stray tensors, not the model's", report.stray_tensors);
  add_list(text, "tensors that follow from the configuration, not used", report.derived_tensors);
  add_list(text, "stray files, not used", report.stray_files);
  if (report.missing.empty() && report.mismatched.empty() && report.stray_tensors.empty())
    add_line(text, "complete", "yes");
}

}  // namespace

std::string report_text(const InspectReport& report) {
  std::string text;
  add_line(text, "model", report.source);
  add_line(text, "architecture", architecture(report.args));
  add_line(text, "context", context_text(report.args));
  add_line(text, "format", format_text(report));
  add_line(text, "parameters",
           fmt::format("{} total, {} activated", billions(report.parameters), billions(report.activated)));
  add_line(text, "MTP layers",
           report.args.n_mtp_layers == 0
               ? "none"
               : fmt::format("{} ({} parameters)", report.args.n_mtp_layers, billions(report.mtp_parameters)));
  add_groups(text, report);
  add_memory(text, report);
  if (report.has_weights) add_files(text, report);
  return text;
}

std::string report_json(const InspectReport& report) {
  Json out;
  out["model"] = report.source;
  out["architecture"] = report.args.score_func == "sigmoid" || report.args.gate_bias ? "deepseek_v3" : "deepseek_v2";
  out["args"] = to_json(report.args);
  out["format"] = report.args.format().name();
  out["parameters"] = {{"total", report.parameters},
                       {"activated", report.activated},
                       {"mtp", report.mtp_parameters},
                       {"by_group", report.group_parameters}};
  out["bytes"] = {{"total", report.bytes}, {"by_group", report.group_bytes}, {"by_type", report.type_bytes}};
  out["mtp_layers"] = report.args.n_mtp_layers;
  Json memory = {{"tp", report.tp},
                 {"max_batch_size", report.max_batch_size},
                 {"max_seq_len", report.max_seq_len},
                 {"cache_bytes_per_token", report.cache_bytes_per_token}};
  if (report.tp_obstacle.empty()) {
    memory["weight_bytes_per_rank"] = report.rank_weight_bytes;
    memory["cache_bytes_per_rank"] = report.rank_cache_bytes;
  } else {
    memory["refused"] = report.tp_obstacle;
  }
  out["memory"] = memory;
  if (!report.has_weights) return out.dump(2) + "\n";
  out["shards"] = report.shards;
  out["files"] = Json::array();
  for (const InspectFile& file : report.files)
    out["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"tensors", file.tensors}});
  out["missing"] = report.missing;
  out["mismatched"] = report.mismatched;
  out["stray_tensors"] = report.stray_tensors;
  out["derived_tensors"] = report.derived_tensors;
  out["stray_files"] = report.stray_files;
  return out.dump(2) + "\n";
}

}  // namespace fathom
