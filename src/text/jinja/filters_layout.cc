// Filters that lay text out: indent, center, wordwrap, truncate, xmlattr.
#include <algorithm>
#include <vector>

#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/ops.h"
#include "text/jinja/repr.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

const Str& self_string(Call& call, const char* what) {
  if (call.self.is(Kind::kUndefined)) fail_undefined(call.rt, *call.self.undefined);
  if (!call.self.is_string()) call.rt.fail("{} needs a string, got '{}'", what, type_name(call.self));
  return *call.self.str;
}

Value filter_indent(Call& call) {
  Runtime& rt = call.rt;
  const Str& text = self_string(call, "indent");
  const Value space = borrow_str(rt, " ", false);
  const Value indent =
      call.has(0) && call.args[0].is_string() ? call.args[0] : repeat(rt, *space.str, int_arg(call, 0, 4));
  const bool first = bool_arg(call, 1, false), blank = bool_arg(call, 2, false);
  // The filter works on the text with one line end more, cut into lines.
  const Str& longer = *concat(rt, text, *borrow_str(rt, "\n", false).str).str;
  StrBuilder out(rt);
  if (first) out.append(*indent.str);
  bool at_first = true;
  each_line(longer.view(), false, [&](std::size_t begin, std::size_t end) {
    if (!at_first) {
      out.append("\n");
      if (blank || end > begin) out.append(*indent.str);
    }
    at_first = false;
    out.append(longer, begin, end);
  });
  return out.finish(text.markup);
}

Value filter_center(Call& call) {
  const Str& text = *to_str(call.rt, call.self).str;
  const Int width = int_arg(call, 0, 80), size = static_cast<Int>(text.chars);
  if (width <= size) return Value::string(&text);
  // Python's str.center puts the odd space left when the width is odd.
  const Int missing = width - size, left = missing / 2 + (missing & width & 1);
  const Str& space = *borrow_str(call.rt, " ", false).str;
  const Value head = repeat(call.rt, space, left), tail = repeat(call.rt, space, missing - left);
  StrBuilder out(call.rt);
  out.append(*head.str), out.append(text), out.append(*tail.str);
  return out.finish(text.markup);
}

Value filter_truncate(Call& call) {
  Runtime& rt = call.rt;
  const Int length = int_arg(call, 0, 255), leeway = call.given(3) ? as_index(rt, call.args[3]) : 5;
  const Value end = call.has(2) ? call.args[2] : borrow_str(rt, "...", false);
  if (!end.is_string()) rt.fail("truncate needs a string as its end");
  const Int end_size = static_cast<Int>(end.str->chars);
  if (length < end_size) rt.fail("expected length >= {}, got {}", int_text(end_size), int_text(length));
  if (leeway < 0) rt.fail("expected leeway >= 0, got {}", int_text(leeway));
  if (length_of(rt, call.self) <= length + leeway) return call.self;
  const Str& text = self_string(call, "truncate");
  std::size_t cut = byte_offset(rt, text, static_cast<std::size_t>(length - end_size));
  if (!bool_arg(call, 1, false)) {
    const std::size_t space = text.view().substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  return concat(rt, *slice_bytes(rt, text, 0, cut).str, *end.str);
}

// One line wrapped as Python's textwrap does without expanding tabs or replacing whitespace.
class Wrapper {
 public:
  Wrapper(Runtime& rt, const Str& text, std::size_t width, bool break_words, bool break_hyphens)
      : rt_(rt), text_(text), width_(width), break_words_(break_words), break_hyphens_(break_hyphens) {}

  // Calls emit(begin, end) for every line made of [begin, end).
  template <typename Emit>
  void wrap(std::size_t begin, std::size_t end, const Emit& emit) {
    split(begin, end);
    bool any = false;
    for (std::size_t at = 0; at < chunks_.size();) {
      if (any && blank(chunks_[at])) ++at;
      if (at == chunks_.size()) break;
      const std::size_t first = at;
      std::size_t used = 0;
      while (at < chunks_.size() && used + chars(chunks_[at]) <= width_) used += chars(chunks_[at++]);
      if (at < chunks_.size() && chars(chunks_[at]) > width_) at = long_chunk(at, first, used);
      std::size_t last = at;
      if (last > first && blank(chunks_[last - 1])) --last;
      if (last == first) continue;
      emit(chunks_[first].begin, chunks_[last - 1].end);
      any = true;
    }
  }

 private:
  std::string_view view(const Span& s) const { return text_.view().substr(s.begin, s.end - s.begin); }
  std::size_t chars(const Span& s) const { return count_chars(view(s)); }
  static bool wrap_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  bool blank(const Span& s) const { return wrap_space(text_.data[s.begin]); }

  // Words, runs of whitespace, and after hyphens between letters a possible break.
  void split(std::size_t begin, std::size_t end) {
    chunks_.clear();
    const std::string_view all = text_.view();
    const auto letter = [&](std::size_t pos) {
      return pos >= begin && pos < end &&
             (is_word(static_cast<unsigned char>(all[pos])) || static_cast<unsigned char>(all[pos]) >= 0x80) &&
             !is_decimal(static_cast<unsigned char>(all[pos]));
    };
    for (std::size_t pos = begin; pos < end;) {
      std::size_t stop = pos;
      const bool space = wrap_space(all[pos]);
      while (stop < end && wrap_space(all[stop]) == space) {
        ++stop;
        const bool hyphen = !space && all[stop - 1] == '-';
        if (break_hyphens_ && hyphen && letter(stop) && stop >= begin + 2 && letter(stop - 2) && stop - 2 >= pos) break;
      }
      chunks_.push_back({pos, stop});
      pos = stop;
      rt_.step();
    }
  }

  // A chunk too long for a line: cut at the width, or left whole on a line of its own.
  std::size_t long_chunk(std::size_t at, std::size_t first, std::size_t used) {
    const std::size_t room = width_ > used ? width_ - used : 0;
    if (!break_words_) return at == first ? at + 1 : at;
    std::size_t cut = chunks_[at].begin;
    for (std::size_t i = 0; i < std::max<std::size_t>(room, first == at ? 1 : 0) && cut < chunks_[at].end; ++i)
      cut += char_size(text_.view(), cut);
    if (cut == chunks_[at].begin) return at;
    const Span rest{cut, chunks_[at].end};
    chunks_[at].end = cut;
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, rest);
    rt_.step(static_cast<i64>(chunks_.size() - at));
    return at + 1;
  }

  Runtime& rt_;
  const Str& text_;
  std::size_t width_;
  bool break_words_, break_hyphens_;
  std::vector<Span> chunks_;
};

Value filter_wordwrap(Call& call) {
  Runtime& rt = call.rt;
  const Str& text = self_string(call, "wordwrap");
  const Int width = int_arg(call, 0, 79);
  if (width <= 0) rt.fail("invalid width {} (must be > 0)", int_text(width));
  const Value joint = call.given(2) ? call.args[2] : borrow_str(rt, "\n", false);
  if (!joint.is_string()) rt.fail("wordwrap needs a string as its wrapstring");
  Wrapper wrapper(rt, text, static_cast<std::size_t>(std::min<Int>(width, Int(1) << 60)), bool_arg(call, 1, true),
                  bool_arg(call, 3, true));
  StrBuilder out(rt);
  bool first = true;
  each_line(text.view(), false, [&](std::size_t begin, std::size_t end) {
    if (!first) out.append(*joint.str);
    first = false;
    bool first_part = true;
    wrapper.wrap(begin, end, [&](std::size_t from, std::size_t to) {
      if (!first_part) out.append(*joint.str);
      first_part = false;
      out.append(text, from, to);
    });
  });
  return out.finish();
}

Value filter_xmlattr(Call& call) {
  Runtime& rt = call.rt;
  if (!call.self.is(Kind::kDict)) rt.fail("xmlattr needs a mapping, got '{}'", type_name(call.self));
  StrBuilder out(rt);
  for (const Dict::Entry& entry : *call.self.dict) {
    if (entry.value.is(Kind::kNone) || entry.value.is(Kind::kUndefined)) continue;
    const Value key = to_str(rt, entry.key), value = to_str(rt, entry.value);
    if (key.str->view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      rt.fail("Invalid character in attribute name: {}", repr(rt, key).str->view());
    if (out.size() != 0 || bool_arg(call, 0, true)) out.append(" ");
    out.append(*escape_html(rt, *key.str).str);
    out.append("=\"");
    out.append(value.str->markup ? *value.str : *escape_html(rt, *value.str).str);
    out.append("\"");
  }
  return out.finish();
}

constexpr Method kTable[] = {
    {"indent", filter_indent, 0, {"width", "first", "blank"}},
    {"center", filter_center, 0, {"width"}},
    {"truncate", filter_truncate, 0, {"length", "killwords", "end", "leeway"}},
    {"wordwrap", filter_wordwrap, 0, {"width", "break_long_words", "wrapstring", "break_on_hyphens"}},
    {"xmlattr", filter_xmlattr, 0, {"autospace"}},
};

}  // namespace

std::span<const Method> layout_filters() { return kTable; }

}  // namespace fathom::jinja
