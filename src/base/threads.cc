#include "base/threads.h"

#include <system_error>
#include <utility>

#include "base/check.h"

namespace fathom {

std::thread start_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    fail("cannot start a thread ({}); allow more of them, or more memory (ulimit -u, -v, -s)", error.what());
  }
}

std::vector<std::thread> start_threads(int n, const std::function<void()>& work) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(n));
  threads.push_back(start_thread(work));
  try {
    while (static_cast<int>(threads.size()) < n) threads.push_back(start_thread(work));
  } catch (const Error&) {  // those that there are do
  }
  return threads;
}

}  // namespace fathom
