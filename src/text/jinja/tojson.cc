#include "text/jinja/repr.h"

#include <algorithm>
#include <cmath>

namespace fathom::jinja {

namespace {

// Writes one value after the other as json.dumps does.
class JsonWriter {
 public:
  JsonWriter(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style), out_(rt) {}

  void write(const Value& value) {
    Runtime::Nest nest(rt_);
    rt_.step();
    switch (value.kind) {
      case Kind::kNone:
        out_.append("null", value.content);
        return;
      case Kind::kBool:
        out_.append(value.b ? "true" : "false", value.content);
        return;
      case Kind::kInt:
        out_.append(int_text(value.i), value.content);
        return;
      case Kind::kFloat:
        out_.append(number(value.f), value.content);
        return;
      case Kind::kString:
        write_string(*value.str);
        return;
      case Kind::kList:
      case Kind::kTuple:
        write_list(*value.list);
        return;
      case Kind::kDict:
        write_dict(*value.dict);
        return;
      default:
        rt_.fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  Value finish() { return out_.finish(); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_text(value);
  }

  void write_string(const Str& text) {
    const std::string_view view = text.view();
    out_.append("\"");
    std::size_t plain = 0;
    for (std::size_t pos = 0; pos < view.size();) {
      const std::size_t size = char_size(view, pos);
      const std::string escaped = escape(char_at(view, pos));
      if (!escaped.empty()) {
        out_.append(text, plain, pos);
        out_.append_for(escaped, text, pos, pos + size);
        plain = pos + size;
      }
      pos += size;
    }
    out_.append(text, plain, view.size());
    out_.append("\"");
  }

  std::string escape(char32_t c) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    const auto code = static_cast<std::uint32_t>(c);
    if (code < 0x20 || (style_.ensure_ascii && code >= 0x7F && code < 0x10000)) return fmt::format("\\u{:04x}", code);
    if (!style_.ensure_ascii || code < 0x10000) return "";
    const std::uint32_t rest = code - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  void new_line() {
    if (!style_.indented) return;
    out_.append("\n");
    for (int i = 0; i < level_; ++i) out_.append(*style_.indent.str);
  }

  void separate(bool first) {
    if (!first) out_.append(*style_.item_separator.str);
    new_line();
  }

  void write_list(const List& list) {
    if (list.size == 0) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (std::size_t i = 0; i < list.size; ++i) {
      separate(i == 0);
      write(list[i]);
    }
    --level_;
    new_line();
    out_.append("]");
  }

  void write_key(const Value& key) {
    switch (key.kind) {
      case Kind::kString:
        write_string(*key.str);
        return;
      case Kind::kNone:
        out_.append("\"null\"");
        return;
      case Kind::kBool:
        out_.append(key.b ? "\"true\"" : "\"false\"");
        return;
      case Kind::kInt:
        out_.append("\"" + int_text(key.i) + "\"", key.content);
        return;
      case Kind::kFloat:
        out_.append("\"" + number(key.f) + "\"", key.content);
        return;
      default:
        rt_.fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  void write_dict(const Dict& dict) {
    if (dict.size == 0) return out_.append("{}");
    const Dict::Entry* entries = dict.entries;
    if (style_.sort_keys) entries = sorted(dict);
    out_.append("{");
    ++level_;
    for (std::size_t i = 0; i < dict.size; ++i) {
      separate(i == 0);
      write_key(entries[i].key);
      out_.append(*style_.key_separator.str);
      write(entries[i].value);
    }
    --level_;
    new_line();
    out_.append("}");
  }

  const Dict::Entry* sorted(const Dict& dict) {
    auto* copy = rt_.array<Dict::Entry>(dict.size);
    std::copy(dict.begin(), dict.end(), copy);
    std::stable_sort(copy, copy + dict.size,
                     [&](const Dict::Entry& a, const Dict::Entry& b) { return compare(rt_, a.key, b.key, "<") == -1; });
    return copy;
  }

  Runtime& rt_;
  const JsonStyle& style_;
  StrBuilder out_;
  int level_ = 0;
};

}  // namespace

Value to_json(Runtime& rt, const Value& value, const JsonStyle& style) {
  JsonWriter writer(rt, style);
  writer.write(value);
  return writer.finish();
}

}  // namespace fathom::jinja
