#include "text/jinja/runtime.h"

#include <algorithm>

namespace fathom::jinja {

namespace {
constexpr std::size_t kAlign = 16;
constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::size_t kLargestChunk = std::size_t{1} << 20;
}  // namespace

void fail_at(std::string_view source, std::size_t pos, const std::string& text, bool raised) {
  int line = 1, column = 1;
  for (std::size_t i = 0; i < std::min(pos, source.size()); ++i) {
    if (source[i] == '\n') {
      ++line, column = 1;
    } else if ((static_cast<unsigned char>(source[i]) & 0xC0) != 0x80) {
      ++column;
    }
  }
  throw TemplateError(text, line, column, raised);
}

std::byte* Runtime::take(Region& region, std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(limits_.max_bytes - used_))
    fail("the template uses more than {} MiB of memory", limits_.max_bytes >> 20);
  if (static_cast<std::size_t>(region.end - region.cursor) < bytes) {
    const std::size_t wish = std::min(kLargestChunk, kChunk << std::min<std::size_t>(chunks_.size(), 4));
    const std::size_t size = std::max(bytes, wish);
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    region = {chunks_.back().get(), chunks_.back().get() + size};
  }
  std::byte* result = region.cursor;
  region.cursor += bytes;
  used_ += static_cast<i64>(bytes);
  return result;
}

void* Runtime::allocate(std::size_t bytes) {
  // Chunks come from operator new, so multiples of kAlign keep every block aligned.
  if (bytes > static_cast<std::size_t>(limits_.max_bytes)) bytes = static_cast<std::size_t>(limits_.max_bytes) + 1;
  return take(objects_, (bytes + kAlign - 1) / kAlign * kAlign);
}

char* Runtime::allocate_text(std::size_t bytes) { return reinterpret_cast<char*>(take(texts_, bytes)); }

char* Runtime::extend_text(const char* end, std::size_t more) {
  if (texts_.cursor == nullptr || reinterpret_cast<const std::byte*>(end) != texts_.cursor) return nullptr;
  if (static_cast<std::size_t>(texts_.end - texts_.cursor) < more) return nullptr;
  return allocate_text(more);
}

void Runtime::fail_text(const std::string& text, bool raised) const { fail_at(source_, pos_, text, raised); }

void Runtime::fail_steps() const { fail("the template does not end: more than {} steps", limits_.max_steps); }

void Runtime::fail_depth() {
  --depth_;  // the level that failed was never entered
  fail("the template nests too deeply: more than {} levels", limits_.max_depth);
}

}  // namespace fathom::jinja
