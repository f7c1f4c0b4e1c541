// Methods of strings: searching, cutting, padding, changing case, formatting.
#include <algorithm>
#include <optional>

#include "text/jinja/case.h"
#include "text/jinja/format.h"
#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/replace.h"
#include "text/jinja/repr.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

const Str& self(Call& call) { return *call.self.str; }

// The argument of strip and its kin: null for whitespace.
const Str* chars_arg(Call& call) { return call.given(0) ? &string_arg(call, 0) : nullptr; }

Value strip(Call& call, bool left, bool right) {
  const Span kept = strip_bounds(call.rt, self(call), chars_arg(call), left, right);
  return slice_bytes(call.rt, self(call), kept.begin, kept.end);
}

Value str_strip(Call& call) { return strip(call, true, true); }
Value str_lstrip(Call& call) { return strip(call, true, false); }
Value str_rstrip(Call& call) { return strip(call, false, true); }

Value str_upper(Call& call) { return to_upper(call.rt, self(call)); }
Value str_lower(Call& call) { return to_lower(call.rt, self(call)); }
Value str_title(Call& call) { return to_title(call.rt, self(call)); }
Value str_capitalize(Call& call) { return capitalize(call.rt, self(call)); }
Value str_swapcase(Call& call) { return swap_case(call.rt, self(call)); }
Value str_casefold(Call& call) { return case_fold(call.rt, self(call)); }

Value str_replace(Call& call) {
  const Str* from = &string_arg(call, 0);
  const Str* to = &string_arg(call, 1);
  if (self(call).markup && !to->markup) to = escape_html(call.rt, *to).str;
  return replace_text(call.rt, self(call), *from, *to, int_arg(call, 2, -1));
}

Value str_join(Call& call) { return join_text(call.rt, self(call), call.args[0], true); }
Value str_format(Call& call) { return brace_format(call.rt, self(call), call.all); }

Value str_format_map(Call& call) {
  if (!call.args[0].is(Kind::kDict)) call.rt.fail("format_map() needs a mapping");
  const Dict& dict = *call.args[0].dict;
  auto* named = call.rt.array<NamedValue>(dict.size);
  std::size_t count = 0;
  for (const Dict::Entry& entry : dict)
    if (entry.key.is_string()) named[count++] = {entry.key.str->view(), entry.value};
  return brace_format(call.rt, self(call), {{}, {named, count}});
}

// The byte range that optional start and end arguments (code points, as in slices) leave of the text; nothing when
// the start lies behind the end.
std::optional<Span> window(Call& call, std::size_t first) {
  const Str& text = self(call);
  const Int size = static_cast<Int>(text.chars);
  const auto bound = [&](std::size_t i, Int fallback) {
    if (!call.given(i)) return fallback;
    const Int at = as_index(call.rt, call.args[i]);
    return at < 0 ? std::max<Int>(at + size, 0) : at;
  };
  const Int start = bound(first, 0), end = std::min(bound(first + 1, size), size);
  if (start > end) return {};
  return Span{byte_offset(call.rt, text, static_cast<std::size_t>(start)),
              byte_offset(call.rt, text, static_cast<std::size_t>(end))};
}

Int char_index(const Str& text, std::size_t byte) {
  return static_cast<Int>(text.ascii() ? byte : count_chars(text.view().substr(0, byte)));
}

Int find_in(Call& call, bool from_right) {
  const Str& text = self(call);
  const Str& needle = string_arg(call, 0);
  const auto bounds = window(call, 1);
  if (!bounds) return -1;
  const std::string_view view = text.view().substr(0, bounds->end);
  std::size_t at;
  if (from_right) {
    at = rfind_text(call.rt, view.substr(bounds->begin), needle.view(), view.npos);
    if (at != view.npos) at += bounds->begin;
  } else {
    at = find_text(call.rt, view, needle.view(), bounds->begin);
  }
  if (at == view.npos) return -1;
  call.rt.scan(at);
  return char_index(text, at);
}

Value str_find(Call& call) { return Value::integer(find_in(call, false)); }
Value str_rfind(Call& call) { return Value::integer(find_in(call, true)); }

Value index_or_fail(Call& call, bool from_right) {
  const Int at = find_in(call, from_right);
  if (at < 0) call.rt.fail("substring not found");
  return Value::integer(at);
}

Value str_index(Call& call) { return index_or_fail(call, false); }
Value str_rindex(Call& call) { return index_or_fail(call, true); }

Value str_count(Call& call) {
  const Str& needle = string_arg(call, 0);
  const auto bounds = window(call, 1);
  if (!bounds) return Value::integer(0);
  const std::string_view view = self(call).view().substr(0, bounds->end);
  if (needle.size == 0) return Value::integer(static_cast<Int>(count_chars(view.substr(bounds->begin))) + 1);
  Int count = 0;
  for (std::size_t pos = bounds->begin;; ++count) {
    pos = find_text(call.rt, view, needle.view(), pos);
    if (pos == view.npos) return Value::integer(count);
    pos += needle.size;
  }
}

Value affix(Call& call, bool prefix) {
  const auto bounds = window(call, 1);
  const auto matches = [&](const Value& text) {
    if (!text.is_string())
      call.rt.fail("{} first arg must be str or a tuple of str, not {}", prefix ? "startswith" : "endswith",
                   type_name(text));
    if (!bounds) return false;
    const std::string_view view = self(call).view().substr(bounds->begin, bounds->end - bounds->begin);
    return prefix ? view.starts_with(text.str->view()) : view.ends_with(text.str->view());
  };
  if (!call.args[0].is(Kind::kTuple)) return Value::boolean(matches(call.args[0]));
  return Value::boolean(std::any_of(call.args[0].list->begin(), call.args[0].list->end(), matches));
}

Value str_startswith(Call& call) { return affix(call, true); }
Value str_endswith(Call& call) { return affix(call, false); }

Value str_removeprefix(Call& call) {
  const Str& text = self(call);
  const Str& prefix = string_arg(call, 0);
  return slice_bytes(call.rt, text, text.view().starts_with(prefix.view()) ? prefix.size : 0, text.size);
}

Value str_removesuffix(Call& call) {
  const Str& text = self(call);
  const Str& suffix = string_arg(call, 0);
  return slice_bytes(call.rt, text, 0, text.size - (text.view().ends_with(suffix.view()) ? suffix.size : 0));
}

// Adds fill characters left and right.
Value pad(Call& call, Int left, Int right) {
  const Value fill = call.has(1) ? call.args[1] : borrow_str(call.rt, " ", false);
  if (!fill.is_string() || fill.str->chars != 1) call.rt.fail("The fill character must be exactly one character long");
  const Value head = repeat(call.rt, *fill.str, left), tail = repeat(call.rt, *fill.str, right);
  StrBuilder out(call.rt);
  out.append(*head.str), out.append(self(call)), out.append(*tail.str);
  return out.finish(self(call).markup);
}

Int missing_width(Call& call) {
  return std::max<Int>(0, as_index(call.rt, call.args[0]) - static_cast<Int>(self(call).chars));
}

Value str_ljust(Call& call) { return pad(call, 0, missing_width(call)); }
Value str_rjust(Call& call) { return pad(call, missing_width(call), 0); }

Value str_center(Call& call) {
  const Int missing = missing_width(call), width = as_index(call.rt, call.args[0]);
  const Int left = missing / 2 + (missing & width & 1);
  return pad(call, left, missing - left);
}

Value str_zfill(Call& call) {
  const Str& text = self(call);
  const std::size_t sign = text.size != 0 && (text.data[0] == '+' || text.data[0] == '-') ? 1 : 0;
  const Value zeros = repeat(call.rt, *borrow_str(call.rt, "0", false).str, missing_width(call));
  StrBuilder out(call.rt);
  out.append(text, 0, sign), out.append(*zeros.str), out.append(text, sign, text.size);
  return out.finish(text.markup);
}

Value str_expandtabs(Call& call) {
  const Str& text = self(call);
  const Int width = std::min<Int>(int_arg(call, 0, 8), 1 << 20);
  StrBuilder out(call.rt);
  Int column = 0;
  for (std::size_t pos = 0; pos < text.size;) {
    const std::size_t next = pos + char_size(text.view(), pos);
    if (text.data[pos] == '\t') {
      const Int spaces = width > 0 ? width - column % width : 0;
      for (Int i = 0; i < spaces; ++i) out.append_for(" ", text, pos, next);
      column += spaces;
    } else {
      out.append(text, pos, next);
      column = text.data[pos] == '\n' || text.data[pos] == '\r' ? 0 : column + 1;
    }
    pos = next;
  }
  return out.finish(text.markup);
}

constexpr Method kTable[] = {
    {"strip", str_strip, 0, {"chars"}, false, false},
    {"lstrip", str_lstrip, 0, {"chars"}, false, false},
    {"rstrip", str_rstrip, 0, {"chars"}, false, false},
    {"upper", str_upper},
    {"lower", str_lower},
    {"title", str_title},
    {"capitalize", str_capitalize},
    {"swapcase", str_swapcase},
    {"casefold", str_casefold},
    {"replace", str_replace, 2, {"old", "new", "count"}, false, false},
    {"join", str_join, 1, {"iterable"}, false, false},
    {"format", str_format, 0, {}, true},
    {"format_map", str_format_map, 1, {"mapping"}, false, false},
    {"find", str_find, 1, {"sub", "start", "end"}, false, false},
    {"rfind", str_rfind, 1, {"sub", "start", "end"}, false, false},
    {"index", str_index, 1, {"sub", "start", "end"}, false, false},
    {"rindex", str_rindex, 1, {"sub", "start", "end"}, false, false},
    {"count", str_count, 1, {"sub", "start", "end"}, false, false},
    {"startswith", str_startswith, 1, {"prefix", "start", "end"}, false, false},
    {"endswith", str_endswith, 1, {"suffix", "start", "end"}, false, false},
    {"removeprefix", str_removeprefix, 1, {"prefix"}, false, false},
    {"removesuffix", str_removesuffix, 1, {"suffix"}, false, false},
    {"ljust", str_ljust, 1, {"width", "fillchar"}, false, false},
    {"rjust", str_rjust, 1, {"width", "fillchar"}, false, false},
    {"center", str_center, 1, {"width", "fillchar"}, false, false},
    {"zfill", str_zfill, 1, {"width"}, false, false},
    {"expandtabs", str_expandtabs, 0, {"tabsize"}},
};

}  // namespace

std::span<const Method> text_methods() { return kTable; }

}  // namespace fathom::jinja
