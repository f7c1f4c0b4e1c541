#include "server/metrics.h"

namespace fathom {
namespace {

std::string metric(const char* name, const char* type, const char* help, double value) {
  return fmt::format("# HELP fathom_{0} {1}\n# TYPE fathom_{0} {2}\nfathom_{0} {3}\n", name, help, type, value);
}
std::string gauge(const char* name, const char* help, double value) { return metric(name, "gauge", help, value); }
std::string counter(const char* name, const char* help, i64 value) {
  return metric(name, "counter", help, static_cast<double>(value));
}

}  // namespace

std::string metrics_text(const EngineStats& engine, const AnswerCounter& answers) {
  const double used =
      engine.blocks == 0 ? 0 : 1 - static_cast<double>(engine.free_blocks) / static_cast<double>(engine.blocks);
  std::string text =
      gauge("requests_waiting", "Requests that wait to be started.", static_cast<double>(engine.waiting)) +
      gauge("requests_running", "Requests that are being computed.", static_cast<double>(engine.running)) +
      gauge("cache_usage_ratio", "Part of the cache's blocks that running requests hold.", used) +
      counter("steps_total", "Passes of the engine.", engine.steps) +
      counter("prompt_tokens_total", "Prompt tokens of ended requests.", engine.prompt_tokens) +
      counter("cached_tokens_total", "Of these, found in the cache.", engine.cached_tokens) +
      counter("generation_tokens_total", "Tokens drawn.", engine.generated_tokens) +
      counter("requests_finished_total", "Requests answered to their end.", engine.finished) +
      counter("requests_cancelled_total", "Requests whose client left or had enough.", engine.cancelled) +
      counter("requests_failed_total", "Requests that ended in an error of the engine.", engine.failed) +
      counter("preemptions_total", "Times that a request gave its cache to an older one.", engine.preemptions);
  text +=
      "# HELP fathom_http_answers_total Answers by endpoint and status.\n# TYPE fathom_http_answers_total counter\n";
  for (const auto& [key, count] : answers.counts())
    text +=
        fmt::format("fathom_http_answers_total{{endpoint=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  return text;
}

}  // namespace fathom
