// fathom convert, fp8-cast-bf16 and quantize: checkpoints from one form to another.

#include <memory>

#include "rewrite/plans.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/rewrite_command.h"

namespace fathom {
namespace {

struct Flags {
  RewriteFlags rewrite;
  std::string from, to, config, format = "fp8";
  i64 n_experts = 0;
  int model_parallel = 1;
  bool mtp = false, allow_missing_scale = false, ignore_unused = false;

  PlanInput input() const { return {from, to, config, ignore_unused}; }
};

void add_config(Command& command, Flags& flags) {
  command.option("--config", flags.config, "Configuration to use instead of the directory's");
}

}  // namespace

void add_convert(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  Command command(app, "convert", "Divide a Hugging Face checkpoint among ranks");
  command.option("--hf-ckpt-path", flags->from, "Hugging Face directory").required();
  command.option("--save-path", flags->to, "Folder to write").required();
  add_config(command, *flags);
  command.option("--n-experts", flags->n_experts, "Routed experts; checked against config.json").range(1, i64{1} << 20);
  command.option("--model-parallel", flags->model_parallel, "Ranks").range(1, 4096).shows_default();
  command.flag("--mtp", flags->mtp, "Keep the multi-token-prediction layers");
  command.flag("--ignore-unused", flags->ignore_unused, "Leave out tensors that the model does not have");
  add_rewrite_flags(command, flags->rewrite);
  command.run([flags] {
    run_rewrite(plan_convert(flags->input(), flags->n_experts, flags->model_parallel, flags->mtp).plan, flags->rewrite);
  });
}

void add_fp8_cast(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  Command command(app, "fp8-cast-bf16", "Turn an FP8 checkpoint into a bf16 one");
  command.option("--input-fp8-hf-path", flags->from, "Hugging Face directory with FP8 weights").required();
  command.option("--output-bf16-hf-path", flags->to, "Folder to write").required();
  add_config(command, *flags);
  command.flag("--allow-missing-scale", flags->allow_missing_scale, "Copy FP8 matrices that have no scale");
  add_rewrite_flags(command, flags->rewrite);
  command.run([flags] { run_rewrite(plan_cast(flags->input(), flags->allow_missing_scale).plan, flags->rewrite); });
}

void add_quantize(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  Command command(app, "quantize", "Turn a bf16 checkpoint into an FP8 one");
  command.option("--in", flags->from, "Hugging Face directory").required();
  command.option("--out", flags->to, "Folder to write").required();
  add_config(command, *flags);
  command.option("--format", flags->format, "fp8, or fp8-ue8m0 for scales that are powers of two")
      .one_of({"fp8", "fp8-ue8m0"})
      .shows_default();
  command.flag("--ignore-unused", flags->ignore_unused, "Copy tensors that the model does not have as they are");
  add_rewrite_flags(command, flags->rewrite);
  command.run(
      [flags] { run_rewrite(plan_quantize(flags->input(), flags->format == "fp8-ue8m0").plan, flags->rewrite); });
}

}  // namespace fathom
