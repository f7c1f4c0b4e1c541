#include "text/jinja/format.h"

#include <algorithm>

#include "text/jinja/ops.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

// Reads one format string with its replacement fields.
class Brace {
 public:
  Brace(Runtime& rt, const Arguments& arguments) : rt_(rt), arguments_(arguments) {}

  Value run(const Str& text, int depth) {
    if (depth > 1) rt_.fail("Max string recursion exceeded");
    StrBuilder out(rt_);
    const std::string_view view = text.view();
    for (std::size_t pos = 0; pos < view.size();) {
      const std::size_t mark = std::min(view.find_first_of("{}", pos), view.size());
      out.append(text, pos, mark);
      if (mark == view.size()) break;
      if (mark + 1 < view.size() && view[mark + 1] == view[mark]) {
        out.append(text, mark, mark + 1);
        pos = mark + 2;
        continue;
      }
      if (view[mark] == '}') rt_.fail("Single '}}' encountered in format string");
      pos = field(out, text, mark + 1, depth);
    }
    return out.finish(text.markup);
  }

 private:
  // One replacement field that begins at `pos`; returns where the text goes on.
  std::size_t field(StrBuilder& out, const Str& text, std::size_t pos, int depth) {
    const std::string_view view = text.view();
    std::size_t end = pos;
    int open = 1;
    for (bool bracket = false; open > 0; ++end) {
      if (end >= view.size()) rt_.fail("expected '}}' before end of string");
      if (view[end] == '[') bracket = true;
      if (view[end] == ']') bracket = false;
      if (bracket) continue;
      open += view[end] == '{' ? 1 : view[end] == '}' ? -1 : 0;
    }
    std::string_view body = view.substr(pos, end - 1 - pos);
    std::size_t cut = 0;
    for (bool bracket = false; cut < body.size() && (bracket || (body[cut] != ':' && body[cut] != '!')); ++cut) {
      if (body[cut] == '[') bracket = true;
      if (body[cut] == ']') bracket = false;
    }
    Value value = lookup(body.substr(0, cut));
    if (cut < body.size() && body[cut] == '!') {
      if (cut + 1 >= body.size() || (cut + 2 < body.size() && body[cut + 2] != ':'))
        rt_.fail("expected ':' after conversion specifier");
      value = convert(value, body[cut + 1]);
      cut += 2;
    }
    FormatSpec spec;
    if (cut < body.size()) {
      const Value inner = slice_bytes(rt_, text, pos + cut + 1, end - 1);
      spec = parse_spec(rt_, run(*inner.str, depth + 1).str->view());
    }
    if (!text.markup || (value.is_string() && value.str->markup)) {
      append_formatted(out, rt_, value, spec);
      return end;
    }
    StrBuilder plain(rt_);
    append_formatted(plain, rt_, value, spec);
    out.append(*escape_html(rt_, *plain.finish().str).str);
    return end;
  }

  Value convert(const Value& value, char how) {
    if (how == 's') return to_str(rt_, value);
    if (how == 'r' || how == 'a') return repr(rt_, value);
    rt_.fail("Unknown conversion specifier '{}'", how);
  }

  static bool number(std::string_view text, std::size_t* value) {
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != text.npos) return false;
    *value = 0;
    for (const char c : text) *value = *value * 10 + static_cast<std::size_t>(c - '0');
    return true;
  }

  // The argument that a field names; only a field without attributes or keys counts as numbered.
  Value first(std::string_view name, bool whole) {
    std::size_t index = 0;
    if (name.empty() && whole) {
      if (numbered_) rt_.fail("cannot switch from manual field specification to automatic field numbering");
      counted_ = true, index = next_++;
    } else if (number(name, &index)) {
      if (counted_ && whole) rt_.fail("cannot switch from automatic field numbering to manual field specification");
      numbered_ = numbered_ || whole;
    } else {
      for (const NamedValue& named : arguments_.named)
        if (named.name == name) return named.value;
      rt_.fail("no value for the format field '{}'", name);
    }
    if (index >= arguments_.items.size())
      rt_.fail("Replacement index {} out of range for positional args tuple", index);
    return arguments_.items[index];
  }

  Value lookup(std::string_view path) {
    std::size_t pos = std::min(path.find_first_of(".["), path.size());
    Value value = first(path.substr(0, pos), pos == path.size());
    while (pos < path.size()) {
      const bool attribute = path[pos] == '.';
      const std::size_t begin = ++pos;
      pos = std::min(attribute ? path.find_first_of(".[", pos) : path.find(']', pos), path.size());
      const std::string_view key = path.substr(begin, pos - begin);
      if (!attribute && ++pos > path.size()) rt_.fail("expected '}}' before end of string");
      std::size_t index = 0;
      const Value name = make_str(rt_, key, false);
      value = attribute ? get_attribute(rt_, value, name)
                        : get_item(rt_, value, number(key, &index) ? Value::integer(static_cast<Int>(index)) : name);
    }
    return value;
  }

  Runtime& rt_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
  bool counted_ = false, numbered_ = false;
};

}  // namespace

Value brace_format(Runtime& rt, const Str& text, const Arguments& arguments) {
  return Brace(rt, arguments).run(text, 0);
}

}  // namespace fathom::jinja
