#include "text/jinja/json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/jinja/text.h"

namespace fathom::jinja {

namespace {

constexpr std::size_t kMaxJsonDepth = 500;

Value content_none() {
  Value value = Value::none();
  value.content = true;
  return value;
}

Value content_bool(bool b) {
  Value value = Value::boolean(b);
  value.content = true;
  return value;
}

template <typename Json>
Value convert(Runtime& rt, const Json& json, std::size_t depth) {
  if (depth > kMaxJsonDepth) rt.fail("the variables nest deeper than {} levels", kMaxJsonDepth);
  switch (json.type()) {
    case Json::value_t::boolean:
      return content_bool(json.template get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.template get<std::int64_t>(), true);
    case Json::value_t::number_unsigned:
      return Value::integer(json.template get<std::uint64_t>(), true);
    case Json::value_t::number_float:
      return Value::real(json.template get<double>(), true);
    case Json::value_t::string:
      return borrow_str(rt, json.template get_ref<const std::string&>(), true);
    case Json::value_t::array: {
      List* list = nullptr;
      const Value value = make_list(rt, &list);
      for (const Json& item : json) list->push(rt, convert(rt, item, depth + 1));
      return value;
    }
    case Json::value_t::object: {
      Value value = Value::of(Kind::kDict);
      value.dict = rt.make<Dict>();
      for (auto it = json.begin(); it != json.end(); ++it)
        value.dict->set(rt, borrow_str(rt, it.key(), true), convert(rt, it.value(), depth + 1));
      return value;
    }
    default:
      return content_none();
  }
}

// Receives the events of the JSON reader. Values under construction stand on a stack.
class Builder {
 public:
  explicit Builder(Runtime& rt) : rt_(rt) {}

  bool null() { return add(content_none()); }
  bool boolean(bool b) { return add(content_bool(b)); }
  bool number_integer(std::int64_t i) { return add(Value::integer(i, true)); }
  bool number_unsigned(std::uint64_t i) { return add(Value::integer(i, true)); }
  bool number_float(double real, const std::string& text) {
    if (text.find_first_of(".eE") != text.npos) return add(Value::real(real, true));
    Int value = 0;  // an integer too long for 64 bits
    for (const char c : text)
      if (c != '-' &&
          (__builtin_mul_overflow(value, Int(10), &value) || __builtin_add_overflow(value, Int(c - '0'), &value)))
        fail("the integer {} of the JSON input does not fit into 128 bits", text);
    return add(Value::integer(text[0] == '-' ? -value : value, true));
  }
  bool string(std::string& text) { return add(make_str(rt_, text, true)); }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool start_object(std::size_t) {
    Value value = Value::of(Kind::kDict);
    value.dict = rt_.make<Dict>();
    return open(value);
  }
  bool start_array(std::size_t) { return open(Value::list_of(rt_.make<List>())); }
  bool key(std::string& text) {
    open_.back().key = make_str(rt_, text, true);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    const std::string text = error.what();
    const std::size_t cut = text.find("parse error");
    fail("the input is not valid JSON: {}", cut == text.npos ? text : text.substr(cut));
  }

  const Value& result() const { return result_; }

 private:
  struct Open {
    Value value, key;
  };

  bool add(const Value& value) {
    if (open_.empty()) {
      result_ = value;
    } else if (open_.back().value.is(Kind::kDict)) {
      open_.back().value.dict->set(rt_, open_.back().key, value);
    } else {
      open_.back().value.list->push(rt_, value);
    }
    return true;
  }

  bool open(const Value& value) {
    if (open_.size() > kMaxJsonDepth) fail("the JSON input nests deeper than {} levels", kMaxJsonDepth);
    open_.push_back({value, {}});
    return true;
  }

  bool close() {
    const Value value = open_.back().value;
    open_.pop_back();
    return add(value);
  }

  Runtime& rt_;
  std::vector<Open> open_;
  Value result_;
};

}  // namespace

Value from_json(Runtime& rt, const nlohmann::json& json) { return convert(rt, json, 0); }
Value from_json(Runtime& rt, const nlohmann::ordered_json& json) { return convert(rt, json, 0); }

Value parse_json(Runtime& rt, std::string_view text) {
  Builder builder(rt);
  nlohmann::json::sax_parse(text, &builder);
  return builder.result();
}

}  // namespace fathom::jinja
