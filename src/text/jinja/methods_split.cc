// Methods of strings that cut them, and those that ask what they consist of.
#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/repr.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

const Str& self(Call& call) { return *call.self.str; }

// The words between runs of whitespace, at most `limit` cuts from the left.
Value split_words(Call& call, Int limit) {
  const Str& text = self(call);
  const std::string_view view = text.view();
  List* out = call.rt.make<List>();
  std::size_t pos = 0;
  const auto skip_space = [&] {
    while (pos < view.size() && is_space(char_at(view, pos))) pos += char_size(view, pos);
  };
  for (skip_space(); pos < view.size(); skip_space()) {
    if (limit-- == 0) {
      out->push(call.rt, slice_bytes(call.rt, text, pos, text.size));
      break;
    }
    const std::size_t begin = pos;
    while (pos < view.size() && !is_space(char_at(view, pos))) pos += char_size(view, pos);
    out->push(call.rt, slice_bytes(call.rt, text, begin, pos));
  }
  return Value::list_of(out);
}

std::size_t previous_char(std::string_view view, std::size_t pos) {
  do --pos;
  while (pos > 0 && (static_cast<unsigned char>(view[pos]) & 0xC0) == 0x80);
  return pos;
}

Value reversed_list(Call& call, const List& list) {
  List* out = call.rt.make<List>();
  for (std::size_t i = list.size; i > 0; --i) out->push(call.rt, list[i - 1]);
  return Value::list_of(out);
}

Value rsplit_words(Call& call, Int limit) {
  const Str& text = self(call);
  const std::string_view view = text.view();
  List* out = call.rt.make<List>();
  std::size_t end = view.size();
  const auto space_before = [&](std::size_t pos) { return is_space(char_at(view, previous_char(view, pos))); };
  const auto skip_space = [&] {
    while (end > 0 && space_before(end)) end = previous_char(view, end);
  };
  for (skip_space(); end > 0; skip_space()) {
    if (limit-- == 0) {
      out->push(call.rt, slice_bytes(call.rt, text, 0, end));
      break;
    }
    const std::size_t stop = end;
    while (end > 0 && !space_before(end)) end = previous_char(view, end);
    out->push(call.rt, slice_bytes(call.rt, text, end, stop));
  }
  return reversed_list(call, *out);
}

const Str& separator(Call& call) {
  const Str& text = string_arg(call, 0);
  if (text.size == 0) call.rt.fail("empty separator");
  return text;
}

Value str_split(Call& call) {
  const Int limit = int_arg(call, 1, -1);
  if (!call.given(0)) return split_words(call, limit);
  const Str& text = self(call);
  const Str& mark = separator(call);
  List* out = call.rt.make<List>();
  std::size_t pos = 0;
  for (Int cuts = 0; cuts != limit; ++cuts) {
    const std::size_t found = find_text(call.rt, text.view(), mark.view(), pos);
    if (found == std::string_view::npos) break;
    out->push(call.rt, slice_bytes(call.rt, text, pos, found));
    pos = found + mark.size;
  }
  out->push(call.rt, slice_bytes(call.rt, text, pos, text.size));
  return Value::list_of(out);
}

Value str_rsplit(Call& call) {
  const Int limit = int_arg(call, 1, -1);
  if (!call.given(0)) return rsplit_words(call, limit);
  const Str& text = self(call);
  const Str& mark = separator(call);
  List* out = call.rt.make<List>();
  std::size_t end = text.size;
  for (Int cuts = 0; cuts != limit; ++cuts) {
    const std::size_t found = text.view().substr(0, end).rfind(mark.view());
    call.rt.step(1 + static_cast<i64>((end - (found == std::string_view::npos ? 0 : found)) / 8));
    if (found == std::string_view::npos) break;
    out->push(call.rt, slice_bytes(call.rt, text, found + mark.size, end));
    end = found;
  }
  out->push(call.rt, slice_bytes(call.rt, text, 0, end));
  return reversed_list(call, *out);
}

Value str_splitlines(Call& call) {
  List* out = call.rt.make<List>();
  each_line(self(call).view(), bool_arg(call, 0, false), [&](std::size_t begin, std::size_t end) {
    out->push(call.rt, slice_bytes(call.rt, self(call), begin, end));
  });
  return Value::list_of(out);
}

// The text as markup if `like` is.
Value marked_like(Call& call, const Str& like, const Value& text) {
  if (text.str->markup == like.markup) return text;
  StrBuilder out(call.rt);
  out.append(*text.str);
  return out.finish(like.markup);
}

Value partition(Call& call, bool from_right) {
  const Str& text = self(call);
  const Value given = Value::string(&separator(call));
  const Value mark = text.markup ? marked_like(call, text, given) : given;
  const std::string_view needle = mark.str->view();
  const std::size_t at =
      from_right ? rfind_text(call.rt, text.view(), needle, text.size) : find_text(call.rt, text.view(), needle, 0);
  const Value empty = marked_like(call, text, borrow_str(call.rt, "", false));
  if (at == std::string_view::npos)
    return from_right ? make_tuple(call.rt, {empty, empty, call.self}) : make_tuple(call.rt, {call.self, empty, empty});
  return make_tuple(
      call.rt, {slice_bytes(call.rt, text, 0, at), mark, slice_bytes(call.rt, text, at + needle.size(), text.size)});
}

Value str_partition(Call& call) { return partition(call, false); }
Value str_rpartition(Call& call) { return partition(call, true); }

template <bool (*is_class)(char32_t)>
Value str_is(Call& call) {
  const std::string_view view = self(call).view();
  call.rt.scan(view.size());
  for (std::size_t pos = 0; pos < view.size(); pos += char_size(view, pos))
    if (!is_class(char_at(view, pos))) return Value::boolean(false);
  return Value::boolean(!view.empty());
}

Value str_isprintable(Call& call) { return Value::boolean(self(call).size == 0 || str_is<is_printable>(call).b); }
Value str_isascii(Call& call) { return Value::boolean(self(call).ascii()); }
Value str_isidentifier(Call& call) { return Value::boolean(is_identifier(self(call).view())); }

template <bool (*wanted)(char32_t), bool (*unwanted)(char32_t)>
Value str_is_case(Call& call) {
  const std::string_view view = self(call).view();
  bool any = false;
  for (std::size_t pos = 0; pos < view.size(); pos += char_size(view, pos)) {
    const char32_t c = char_at(view, pos);
    if (unwanted(c) || is_title(c)) return Value::boolean(false);
    any = any || wanted(c);
  }
  return Value::boolean(any);
}

Value str_istitle(Call& call) {
  const std::string_view view = self(call).view();
  bool any = false, in_word = false;
  for (std::size_t pos = 0; pos < view.size(); pos += char_size(view, pos)) {
    const char32_t c = char_at(view, pos);
    const bool capital = is_upper(c) || is_title(c);
    if ((capital && in_word) || (is_lower(c) && !in_word)) return Value::boolean(false);
    in_word = capital || is_lower(c);
    any = any || in_word;
  }
  return Value::boolean(any);
}

constexpr Method kSplit[] = {
    {"split", str_split, 0, {"sep", "maxsplit"}},
    {"rsplit", str_rsplit, 0, {"sep", "maxsplit"}},
    {"splitlines", str_splitlines, 0, {"keepends"}},
    {"partition", str_partition, 1, {"sep"}, false, false},
    {"rpartition", str_rpartition, 1, {"sep"}, false, false},
};

constexpr Method kClasses[] = {
    {"isalpha", str_is<is_alpha>},
    {"isalnum", str_is<is_alnum>},
    {"isdigit", str_is<is_digit>},
    {"isdecimal", str_is<is_decimal>},
    {"isnumeric", str_is<is_numeric>},
    {"isspace", str_is<is_space>},
    {"isprintable", str_isprintable},
    {"isascii", str_isascii},
    {"isidentifier", str_isidentifier},
    {"islower", str_is_case<is_lower, is_upper>},
    {"isupper", str_is_case<is_upper, is_lower>},
    {"istitle", str_istitle},
};

}  // namespace

std::span<const Method> split_methods() { return kSplit; }
std::span<const Method> class_methods() { return kClasses; }

}  // namespace fathom::jinja
