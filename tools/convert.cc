// fathom convert, fp8-cast-bf16 and quantize: checkpoints from one form to another.
#include <CLI/CLI.hpp>

#include <memory>

#include "rewrite/plans.h"
#include "tools/commands.h"
#include "tools/rewrite_command.h"

namespace fathom {
namespace {

struct Flags {
  RewriteFlags rewrite;
  std::string from, to, format = "fp8";
  i64 n_experts = 0;
  int model_parallel = 1;
  bool mtp = false, allow_missing_scale = false;
};

}  // namespace

void add_convert(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("convert", "Divide a Hugging Face checkpoint among ranks");
  command->add_option("--hf-ckpt-path", flags->from, "Hugging Face directory")->required();
  command->add_option("--save-path", flags->to, "Folder to write")->required();
  command->add_option("--n-experts", flags->n_experts, "Routed experts; checked against config.json")
      ->check(CLI::Range(i64{1}, i64{1} << 20));
  command->add_option("--model-parallel", flags->model_parallel, "Ranks")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_flag("--mtp", flags->mtp, "Keep the multi-token-prediction layers");
  add_rewrite_flags(*command, flags->rewrite);
  command->callback([flags] {
    run_rewrite(plan_convert(flags->from, flags->to, flags->n_experts, flags->model_parallel, flags->mtp).plan,
                flags->rewrite);
  });
}

void add_fp8_cast(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("fp8-cast-bf16", "Turn an FP8 checkpoint into a bf16 one");
  command->add_option("--input-fp8-hf-path", flags->from, "Hugging Face directory with FP8 weights")->required();
  command->add_option("--output-bf16-hf-path", flags->to, "Folder to write")->required();
  command->add_flag("--allow-missing-scale", flags->allow_missing_scale, "Copy FP8 matrices that have no scale");
  add_rewrite_flags(*command, flags->rewrite);
  command->callback(
      [flags] { run_rewrite(plan_cast(flags->from, flags->to, flags->allow_missing_scale).plan, flags->rewrite); });
}

void add_quantize(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("quantize", "Turn a bf16 checkpoint into an FP8 one");
  command->add_option("--in", flags->from, "Hugging Face directory")->required();
  command->add_option("--out", flags->to, "Folder to write")->required();
  command->add_option("--format", flags->format, "fp8, or fp8-ue8m0 for scales that are powers of two")
      ->check(CLI::IsMember({"fp8", "fp8-ue8m0"}))
      ->capture_default_str();
  add_rewrite_flags(*command, flags->rewrite);
  command->callback([flags] {
    run_rewrite(plan_quantize(flags->from, flags->to, flags->format == "fp8-ue8m0").plan, flags->rewrite);
  });
}

}  // namespace fathom
