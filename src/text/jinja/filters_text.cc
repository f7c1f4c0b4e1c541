#include "text/jinja/method.h"

#include <algorithm>

#include "text/jinja/case.h"
#include "text/jinja/format.h"
#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/ops.h"
#include "text/jinja/replace.h"
#include "text/jinja/repr.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

const Str& self_text(Call& call) { return *to_str(call.rt, call.self).str; }

Value filter_upper(Call& call) { return to_upper(call.rt, self_text(call)); }
Value filter_lower(Call& call) { return to_lower(call.rt, self_text(call)); }
Value filter_capitalize(Call& call) { return capitalize(call.rt, self_text(call)); }
Value filter_string(Call& call) { return to_str(call.rt, call.self); }

// Jinja's own title: a capital after spaces, hyphens and opening brackets, small letters elsewhere.
Value filter_title(Call& call) {
  const Str& text = self_text(call);
  const std::string_view view = text.view();
  const auto separates = [&](std::size_t pos) {
    return std::string_view("-({[<").find(view[pos]) != std::string_view::npos || is_space(char_at(view, pos));
  };
  StrBuilder out(call.rt);
  for (std::size_t pos = 0; pos < view.size();) {
    std::size_t end = pos;
    const bool separator = separates(pos);
    while (end < view.size() && separates(end) == separator) end += char_size(view, end);
    const std::size_t first = pos + char_size(view, pos);
    out.append(*to_upper(call.rt, *slice_bytes(call.rt, text, pos, first).str).str);
    out.append(*to_lower(call.rt, *slice_bytes(call.rt, text, first, end).str).str);
    pos = end;
  }
  return out.finish();
}

Value filter_trim(Call& call) {
  const Str& text = self_text(call);
  const Span kept = strip_bounds(call.rt, text, call.given(0) ? &string_arg(call, 0) : nullptr, true, true);
  return slice_bytes(call.rt, text, kept.begin, kept.end);
}

Value filter_replace(Call& call) {
  const Str plain = [&] {
    Str s = self_text(call);
    s.markup = false;
    return s;
  }();
  const Int count = call.given(2) ? as_index(call.rt, call.args[2]) : -1;
  StrBuilder copy(call.rt);
  copy.append(plain);
  return replace_text(call.rt, *copy.finish().str, *text_of(call, 0).str, *text_of(call, 1).str, count);
}

Value filter_escape(Call& call) {
  const Value text = to_str(call.rt, call.self);
  return call.self.is_string() && text.str->markup ? text : escape_html(call.rt, *text.str);
}

Value filter_forceescape(Call& call) { return escape_html(call.rt, self_text(call)); }

Value filter_safe(Call& call) {
  StrBuilder out(call.rt);
  out.append(self_text(call));
  return out.finish(true);
}

// The text without comments and tags, entities decoded, runs of whitespace made one space.
Value filter_striptags(Call& call) {
  const Str& text = self_text(call);
  const std::string_view view = text.view();
  StrBuilder bare(call.rt);
  for (std::size_t pos = 0; pos < view.size();) {
    const bool comment = view.substr(pos, 4) == "<!--";
    const std::size_t end = view[pos] != '<' ? view.npos : comment ? view.find("-->", pos) : view.find('>', pos);
    if (view[pos] == '<' && end == view.npos) {
      bare.append(text, pos, view.size());
      break;
    }
    if (end == view.npos) {
      const std::size_t next = std::min(view.find('<', pos), view.size());
      bare.append(text, pos, next);
      pos = next;
    } else {
      pos = end + (comment ? 3 : 1);
    }
  }
  Value result = bare.finish();
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"},  {"&gt;", ">"},        {"&#34;", "\""}, {"&quot;", "\""},
      {"&#39;", "'"}, {"&nbsp;", "\u00a0"}, {"&amp;", "&"}};
  const Value words = result;
  StrBuilder joined(call.rt);
  std::size_t begin = 0;
  const std::string_view flat = words.str->view();
  for (std::size_t pos = 0; pos <= flat.size();) {
    const bool space = pos == flat.size() || is_space(char_at(flat, pos));
    if (space && pos > begin) {
      if (joined.size() != 0) joined.append(" ");
      joined.append(*words.str, begin, pos);
    }
    pos += pos == flat.size() ? 1 : char_size(flat, pos);
    if (space) begin = pos;
  }
  result = joined.finish();
  for (const auto& [entity, meaning] : kEntities)
    result = replace_text(call.rt, *result.str, *borrow_str(call.rt, entity, false).str,
                          *borrow_str(call.rt, meaning, any_content(*result.str)).str, -1);
  return result;
}

void append_quoted_url(StrBuilder& out, const Str& text, bool query) {
  for (std::size_t i = 0; i < text.size; ++i) {
    const auto c = static_cast<unsigned char>(text.data[i]);
    const bool plain =
        is_alnum(c < 0x80 ? c : U'\0') || c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out.append(text, i, i + 1);
    } else {
      out.append_for(c == ' ' && query ? "+" : fmt::format("%{:02X}", c), text, i, i + 1);
    }
  }
}

Value filter_urlencode(Call& call) {
  StrBuilder out(call.rt);
  if (call.self.is_string() || !iterable(call.self)) {
    append_quoted_url(out, self_text(call), false);
    return out.finish();
  }
  const auto add = [&](const Value& key, const Value& value) {
    if (out.size() != 0) out.append("&");
    append_quoted_url(out, *to_str(call.rt, key).str, true);
    out.append("=");
    append_quoted_url(out, *to_str(call.rt, value).str, true);
  };
  if (call.self.is(Kind::kDict)) {
    for (const Dict::Entry& entry : *call.self.dict) add(entry.key, entry.value);
    return out.finish();
  }
  Iter* iter = iterate(call.rt, call.self);
  for (Value item; iter->next(call.rt, item);) {
    const List* pair = collect(call.rt, item);
    if (pair->size != 2) call.rt.fail("urlencode needs pairs, got {} values", pair->size);
    add((*pair)[0], (*pair)[1]);
  }
  return out.finish();
}

Value filter_format(Call& call) {
  const Arguments& all = call.all;
  if (!all.items.empty() && !all.named.empty())
    call.rt.fail("can't handle positional and keyword arguments at the same time");
  Value value;
  if (!all.named.empty()) {
    value = Value::of(Kind::kDict);
    value.dict = call.rt.make<Dict>();
    for (const NamedValue& named : all.named)
      value.dict->set(call.rt, make_str(call.rt, named.name, false), named.value);
  } else {
    value = Value::list_of(call.rt.make<List>(), Kind::kTuple);
    for (const Value& item : all.items) value.list->push(call.rt, item);
  }
  return percent_format(call.rt, self_text(call), value);
}

Value filter_wordcount(Call& call) {
  const std::string_view view = self_text(call).view();
  Int count = 0;
  bool inside = false;
  for (std::size_t pos = 0; pos < view.size(); pos += char_size(view, pos)) {
    const bool word = is_word(char_at(view, pos));
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  call.rt.scan(view.size());
  return Value::integer(count);
}

// As transformers defines it: tojson(ensure_ascii, indent, separators, sort_keys), no HTML escaping.
Value filter_tojson(Call& call) {
  Runtime& rt = call.rt;
  JsonStyle style;
  style.ensure_ascii = bool_arg(call, 0, false);
  style.indented = call.given(1);
  if (style.indented && call.args[1].is_string()) {
    style.indent = call.args[1];
  } else if (style.indented) {
    style.indent = repeat(rt, *borrow_str(rt, " ", false).str, as_index(rt, call.args[1]));
  }
  style.item_separator = borrow_str(rt, style.indented ? "," : ", ", false);
  style.key_separator = borrow_str(rt, ": ", false);
  if (call.given(2)) {
    const List* separators = collect(rt, call.args[2]);
    if (separators->size != 2 || !(*separators)[0].is_string() || !(*separators)[1].is_string())
      rt.fail("separators of tojson must be two strings");
    style.item_separator = (*separators)[0], style.key_separator = (*separators)[1];
  }
  style.sort_keys = bool_arg(call, 3, false);
  return to_json(rt, call.self, style);
}

constexpr Method kTable[] = {
    {"upper", filter_upper},
    {"lower", filter_lower},
    {"capitalize", filter_capitalize},
    {"title", filter_title},
    {"string", filter_string},
    {"trim", filter_trim, 0, {"chars"}},
    {"replace", filter_replace, 2, {"old", "new", "count"}},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_forceescape},
    {"safe", filter_safe},
    {"striptags", filter_striptags},
    {"urlencode", filter_urlencode},
    {"format", filter_format, 0, {}, true},
    {"wordcount", filter_wordcount},
    {"tojson", filter_tojson, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
};

}  // namespace

std::span<const Method> text_filters() { return kTable; }

}  // namespace fathom::jinja
