#include "text/jinja/replace.h"

#include "text/jinja/iter.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

Value replace_text(Runtime& rt, const Str& text, const Str& from, const Str& to, Int count) {
  const std::string_view view = text.view();
  StrBuilder out(rt);
  std::size_t pos = 0;
  if (from.size == 0) {
    // Python puts the new text before every character and at the end.
    for (; count != 0 && pos <= view.size(); --count) {
      out.append(to);
      if (pos == view.size()) break;
      const std::size_t size = char_size(view, pos);
      out.append(text, pos, pos + size);
      pos += size;
    }
    if (pos < view.size()) out.append(text, pos, view.size());
    return out.finish(text.markup);
  }
  for (; count != 0; --count) {
    const std::size_t found = find_text(rt, view, from.view(), pos);
    if (found == view.npos) break;
    out.append(text, pos, found);
    out.append(to);
    pos = found + from.size;
  }
  if (pos == 0) return Value::string(&text);
  out.append(text, pos, view.size());
  return out.finish(text.markup);
}

Value join_text(Runtime& rt, const Str& separator, const Value& items, bool strict) {
  StrBuilder out(rt);
  Iter* iter = iterate(rt, items);
  std::size_t index = 0;
  for (Value item; iter->next(rt, item); ++index) {
    if (index != 0) out.append(separator);
    if (strict && !item.is_string())
      rt.fail("sequence item {}: expected str instance, {} found", index, type_name(item));
    if (separator.markup && strict && !item.str->markup) item = escape_html(rt, *item.str);
    append_str(out, rt, item);
  }
  return out.finish(separator.markup && strict);
}

}  // namespace fathom::jinja
