// Metrics of a server in Prometheus' text form.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "engine/engine_thread.h"

namespace fathom {

// Counts the answers of each endpoint by status; used by many threads.
class AnswerCounter {
 public:
  void count(const std::string& endpoint, int status) {
    const std::unique_lock lock(mutex_);
    ++counts_[{endpoint, status}];
  }
  std::map<std::pair<std::string, int>, i64> counts() const {
    const std::unique_lock lock(mutex_);
    return counts_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, i64> counts_;
};

std::string metrics_text(const EngineStats& engine, const AnswerCounter& answers);

}  // namespace fathom
