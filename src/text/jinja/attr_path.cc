#include "text/jinja/attr_path.h"

#include <algorithm>
#include <numeric>

#include "text/jinja/case.h"
#include "text/jinja/ops.h"

namespace fathom::jinja {

namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

AttributePath::AttributePath(Runtime& rt, const Value& attribute) {
  if (attribute.missing() || attribute.is(Kind::kNone)) return;
  parts_ = rt.make<List>();
  if (!attribute.is_string()) {
    parts_->push(rt, attribute);
    return;
  }
  const Str& text = *attribute.str;
  for (std::size_t begin = 0; begin <= text.size;) {
    const std::size_t end = std::min(text.view().find('.', begin), text.size);
    const Value part = slice_bytes(rt, text, begin, end);
    if (all_digits(part.str->view())) {
      Int number = 0;
      for (const char c : part.str->view()) number = number * 10 + (c - '0');
      parts_->push(rt, Value::integer(number));
    } else {
      parts_->push(rt, part);
    }
    begin = end + 1;
  }
}

Value AttributePath::get(Runtime& rt, Value item, const Value& fallback) const {
  if (parts_ == nullptr) return item;
  for (const Value& part : *parts_) {
    item = get_item(rt, item, part);
    if (!fallback.missing() && !fallback.is(Kind::kNone) && item.is(Kind::kUndefined)) item = fallback;
  }
  return item;
}

Value ignore_case(Runtime& rt, const Value& value) { return value.is_string() ? to_lower(rt, *value.str) : value; }

std::size_t* sorted_order(Runtime& rt, const List& keys, bool reverse) {
  std::size_t* order = rt.array<std::size_t>(keys.size);
  std::size_t* scratch = rt.array<std::size_t>(keys.size);
  std::iota(order, order + keys.size, std::size_t{0});
  // A merge sort of our own: it stays in bounds even where values compare without order (NaN).
  const auto before = [&](std::size_t a, std::size_t b) {
    return (reverse ? compare(rt, keys[a], keys[b], "<") : compare(rt, keys[b], keys[a], "<")) == -1;
  };
  for (std::size_t width = 1; width < keys.size; width *= 2) {
    for (std::size_t low = 0; low < keys.size; low += 2 * width) {
      const std::size_t mid = std::min(low + width, keys.size), high = std::min(low + 2 * width, keys.size);
      std::size_t left = low, right = mid;
      for (std::size_t at = low; at < high; ++at) {
        const bool take_right = left == mid || (right < high && before(order[left], order[right]));
        scratch[at] = take_right ? order[right++] : order[left++];
      }
    }
    std::swap(order, scratch);
  }
  return order;
}

}  // namespace fathom::jinja
