#include "server/openai_options.h"

#include <limits>
#include <random>

namespace fathom {
namespace {

constexpr i64 kNoLimit = std::numeric_limits<i64>::max();
constexpr i64 kMaxChoices = 128;
constexpr std::size_t kMaxStops = 16;

// Two requests without a seed draw different tokens.
std::int64_t fresh_seed() {
  std::random_device device;
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(device()) << 31 ^ device()) >> 2);
}

SamplingParams read_sampling(const Fields& fields, const Service& service) {
  SamplingParams sampling;
  sampling.temperature = static_cast<float>(fields.number("temperature", service.options().default_temperature, 0, 2));
  sampling.top_p = static_cast<float>(fields.number("top_p", 1, 0, 1));
  if (!(sampling.top_p > 0)) fields.refuse("top_p", "above 0 and at most 1", *fields.find("top_p"));
  sampling.min_p = static_cast<float>(fields.number("min_p", 0, 0, 1));
  sampling.top_k = static_cast<std::int32_t>(fields.integer("top_k", 0, -1, std::numeric_limits<std::int32_t>::max()));
  if (sampling.top_k < 0) sampling.top_k = 0;  // other servers write -1 for "no limit"
  sampling.repetition_penalty = static_cast<float>(fields.number("repetition_penalty", 1, 0.01, 100));
  sampling.seed =
      fields.has("seed") ? fields.integer("seed", 0, std::numeric_limits<i64>::min(), kNoLimit) : fresh_seed();
  return sampling;
}

// Fields that would change the answer and are not built yet: refused, not passed over.
void refuse_unsupported(const Fields& fields) {
  for (const char* name : {"presence_penalty", "frequency_penalty"})
    if (fields.number(name, 0, -2, 2) != 0) fields.refuse(name, "0: it is not supported", *fields.find(name));
  if (const Json* bias = fields.object("logit_bias"); bias != nullptr && !bias->empty())
    fields.refuse("logit_bias", "empty: it is not supported", *bias);
  if (fields.integer("min_tokens", 0, 0, kNoLimit) != 0)
    fields.refuse("min_tokens", "0: it is not supported", *fields.find("min_tokens"));
}

std::vector<TokenId> read_stop_ids(const Fields& fields, i64 vocabulary) {
  std::vector<TokenId> ids;
  const Json* list = fields.array("stop_token_ids");
  if (list == nullptr) return ids;
  if (list->size() > kMaxStops)
    fields.refuse("stop_token_ids", fmt::format("a list of at most {} ids", kMaxStops), *list);
  for (const Json& one : *list) {
    if (!one.is_number_integer() || one.get<i64>() < 0 || one.get<i64>() >= vocabulary)
      fields.refuse("stop_token_ids", fmt::format("a list of token ids below {}", vocabulary), *list);
    ids.push_back(one.get<TokenId>());
  }
  return ids;
}

}  // namespace

OpenAiOptions read_openai_options(const Fields& fields, const Service& service, i64 max_tokens) {
  refuse_unsupported(fields);
  OpenAiOptions options;
  options.answer.sampling = read_sampling(fields, service);
  const char* limit = fields.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  options.answer.max_new_tokens = fields.integer(limit, max_tokens, 1, kNoLimit);
  options.answer.stop = fields.texts("stop", kMaxStops);
  options.answer.stop_ids = read_stop_ids(fields, service.vocab_size());
  options.answer.ignore_eos = fields.boolean("ignore_eos", false);
  options.n = fields.integer("n", 1, 1, kMaxChoices);
  options.stream = fields.boolean("stream", false);
  if (const Json* stream = fields.object("stream_options")) {
    if (!options.stream) fields.refuse("stream_options", "left out where 'stream' is not true", *stream);
    const Fields inner(*stream, "stream_options.");
    options.usage_chunk = inner.boolean("include_usage", false);
    options.usage_always = inner.boolean("continuous_usage_stats", false);
  }
  return options;
}

void fit_answer(AnswerOptions& options, i64 prompt_tokens, i64 max_seq_len) {
  const i64 room = max_seq_len - prompt_tokens;
  if (room <= 0 || options.max_new_tokens > room)
    throw ApiError(
        400,
        fmt::format("This model's maximum context length is {} tokens. The prompt has {} and the answer is to "
                    "have {} at most; shorten the prompt or lower max_tokens",
                    max_seq_len, prompt_tokens, std::max<i64>(options.max_new_tokens, 1)),
        "max_tokens");
  if (options.max_new_tokens == 0) options.max_new_tokens = room;
}

Json openai_logprobs(const Reply& reply, std::size_t from) {
  Json entries = Json::array();
  const Json all = reply.logprobs_to_json();
  for (std::size_t n = from; n < all.size(); ++n) {
    const auto one = [](const Json& said) {
      return Json{{"token", said["token"]}, {"logprob", said["logprob"]}, {"bytes", said["bytes"]}};
    };
    Json entry = one(all[n]);
    entry["top_logprobs"] = Json::array();
    for (const Json& top : all[n]["top"]) entry["top_logprobs"].push_back(one(top));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Json openai_usage(const Usage& usage, i64 reasoning_tokens) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", reasoning_tokens}}}};
}

}  // namespace fathom
