// Starting threads where the system may not give them.
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace fathom {

// Throws Error with one line when no thread can be started.
std::thread start_thread(std::function<void()> work);
// `n` threads, or fewer where the system gives no more; Error when it gives none.
std::vector<std::thread> start_threads(int n, const std::function<void()>& work);

}  // namespace fathom
