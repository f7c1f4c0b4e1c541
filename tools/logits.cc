#include <charconv>
#include <map>
#include <memory>

#include "checkpoint/safetensors.h"
#include "comm/communicator.h"
#include "engine/runner.h"
#include "model/source.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/model_flags.h"

namespace fathom {
namespace {

struct LogitsFlags {
  std::string model, ids, then, out;
  bool hidden = false;
  i64 chunk = 0;  // 0: the whole prompt in one pass
  ModelFlags run;
};

// "1, 2,3" -> ids, all inside the vocabulary.
std::vector<TokenId> parse_ids(const std::string& flag, std::string_view text, i64 vocab_size) {
  std::vector<TokenId> ids;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view one = text.substr(0, comma);
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    while (!one.empty() && one.back() == ' ') one.remove_suffix(1);
    i64 id = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), id);
    if (one.empty() || error != std::errc() || end != one.data() + one.size())
      throw UsageError(fmt::format("{}: '{}' is not a token id; ids are numbers with commas between", flag, one));
    CHECK(id >= 0 && id < vocab_size, "{}: token id {} is outside the vocabulary of {}", flag, id, vocab_size);
    ids.push_back(static_cast<TokenId>(id));
    text.remove_prefix(std::min(text.size(), comma + 1));
  }
  return ids;
}

void append(std::vector<float>& all, const std::vector<float>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

struct Outputs {
  std::vector<float> logits;               // [1 + then, vocab_size]
  std::vector<std::vector<float>> hidden;  // of each block [prompt, dim]
};

Outputs compute(Runner& runner, const std::vector<TokenId>& prompt, const std::vector<TokenId>& then,
                const LogitsFlags& flags) {
  Outputs all;
  const auto length = static_cast<i64>(prompt.size()), block_size = runner.limits().block_size;
  const i64 chunk = flags.chunk > 0 ? flags.chunk : length;
  if (flags.hidden) all.hidden.resize(static_cast<std::size_t>(runner.args().n_layers));
  for (i64 start = 0; start < length; start += chunk) {
    const i64 count = std::min(chunk, length - start);
    const auto part = std::span(prompt).subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(count));
    const auto pass =
        runner.forward(single_sequence_plan(part, start, block_size, start + count == length), flags.hidden);
    append(all.logits, pass.logits);
    for (std::size_t layer = 0; layer < pass.hidden.size(); ++layer) append(all.hidden[layer], pass.hidden[layer]);
  }
  for (std::size_t i = 0; i < then.size(); ++i) {
    const i64 position = length + static_cast<i64>(i);
    append(all.logits,
           runner.forward(single_sequence_plan(std::span(&then[i], 1), position, block_size, true), false).logits);
  }
  return all;
}

void write(const std::string& path, const Outputs& outputs, i64 vocab_size, i64 dim) {
  const auto rows = [](const std::vector<float>& values, i64 width) {
    return Shape{static_cast<i64>(values.size()) / width, width};
  };
  std::map<std::string, const std::vector<float>*> values{{"logits", &outputs.logits}};
  std::vector<TensorInfo> tensors{{"logits", DType::f32, rows(outputs.logits, vocab_size)}};
  for (std::size_t layer = 0; layer < outputs.hidden.size(); ++layer) {
    const std::string name = fmt::format("hidden.{}", layer);
    values[name] = &outputs.hidden[layer];
    tensors.push_back({name, DType::f32, rows(outputs.hidden[layer], dim)});
  }
  SafetensorsWriter writer(path, tensors);
  for (const TensorInfo& tensor : writer.tensors()) writer.write(std::as_bytes(std::span(*values.at(tensor.name))));
  writer.finish();
}

void run(const LogitsFlags& flags) {
  const ModelSource source = open_named_model(flags.model, flags.run.config);
  ModelArgs args = source.args;
  if (flags.run.session.max_seq_len > 0) args.max_seq_len = flags.run.session.max_seq_len;
  const auto prompt = parse_ids("--ids", flags.ids, args.vocab_size);
  const auto then = parse_ids("--then", flags.then, args.vocab_size);
  if (prompt.empty()) throw UsageError("--ids: at least one token id is needed");
  const auto total = static_cast<i64>(prompt.size() + then.size());
  CHECK(total <= args.max_seq_len,
        "Prompt length exceeds model maximum sequence length (max_seq_len={}): {} tokens are given; shorten them or "
        "raise --max-seq-len",
        args.max_seq_len, total);
  check_weights(source, flags.run);
  const auto backend = flags.run.backend();
  warn_of_idle_flags(flags.run, source.args);
  SingleCommunicator comm;
  const auto length = static_cast<i64>(prompt.size());
  Limits limits{.max_tokens = flags.chunk > 0 ? std::min(flags.chunk, length) : length, .max_sequences = 1};
  limits.max_seq_len = total;
  Runner runner(*backend, comm, *source.checkpoint, args,
                {.limits = limits, .map = flags.run.session.map, .compute = flags.run.options().compute});
  tell_of_model(args);
  write(flags.out, compute(runner, prompt, then, flags), args.vocab_size, args.dim);
}

}  // namespace

void add_logits(CLI::App& app) {
  Command command(app, "logits", "Write the logits after a prompt of token ids");
  const auto flags = std::make_shared<LogitsFlags>();
  command.option("--model", flags->model, "Model directory, or synthetic:CONFIG[:SEED]").required();
  command.option("--config", flags->run.config, "Configuration; else what the model directory says");
  command.option("--ids", flags->ids, "Token ids of the prompt: \"1,2,3\"").required();
  command.option("--then", flags->then, "Further token ids, one pass each").may_be_empty();
  command.option("--out", flags->out, "safetensors file to write: logits float32 [1 + then, vocabulary]").required();
  command.flag("--hidden", flags->hidden, "Write each block's output for the prompt too (hidden.N)");
  command.option("--chunk", flags->chunk, "Prompt tokens of a pass; 0: all at once")
      .range(0, i64{1} << 30)
      .shows_default();
  command.option("--max-seq-len", flags->run.session.max_seq_len, "Longest sequence; else the configuration's")
      .range(1, i64{1} << 24);
  add_compute_flags(command, flags->run);
  command.run([flags] { run(*flags); });
}

}  // namespace fathom
