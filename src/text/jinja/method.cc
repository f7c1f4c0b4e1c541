#include "text/jinja/method.h"

#include <algorithm>
#include <vector>

#include "base/names.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

const Method* find_in(std::span<const Method> table, std::string_view name) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const Method& row) { return name == row.name; });
  return it == table.end() ? nullptr : &*it;
}

const Method* find_in(std::initializer_list<std::span<const Method>> tables, std::string_view name) {
  for (const auto& table : tables)
    if (const Method* row = find_in(table, name)) return row;
  return nullptr;
}

std::string unknown(const char* what, std::string_view name, std::initializer_list<std::span<const Method>> tables) {
  std::vector<std::string_view> known;
  for (const auto& table : tables)
    for (const Method& row : table) known.emplace_back(row.name);
  return fmt::format("No {} named '{}'; the nearest is '{}'.", what, name, nearest_name(name, known));
}

bool among(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::string_view kListMutators[] = {"append", "clear", "pop",    "reverse",
                                              "insert", "sort",  "extend", "remove"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kOtherStrMethods[] = {"encode", "maketrans", "translate"};
constexpr std::string_view kOtherNumberMethods[] = {"to_bytes", "from_bytes",       "hex",
                                                    "fromhex",  "as_integer_ratio", "conjugate"};

std::size_t parameter_count(const Method& method) {
  return static_cast<std::size_t>(std::find(method.parameters.begin(), method.parameters.end(), nullptr) -
                                  method.parameters.begin());
}

}  // namespace

const Method* find_filter(std::string_view name) {
  return find_in({text_filters(), layout_filters(), sequence_filters(), selection_filters(), number_filters()}, name);
}

const Method* find_test(std::string_view name) { return find_in(tests(), name); }
const Method* find_global(std::string_view name) { return find_in(globals(), name); }

std::string unknown_filter(std::string_view name) {
  return unknown("filter", name,
                 {text_filters(), layout_filters(), sequence_filters(), selection_filters(), number_filters()});
}

std::string unknown_test(std::string_view name) { return unknown("test", name, {tests()}); }

const Method* find_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kString:
      return find_in({text_methods(), split_methods(), class_methods()}, name);
    case Kind::kList:
    case Kind::kTuple:
      // Tuples have no copy().
      return kind == Kind::kTuple && name == "copy" ? nullptr : find_in(list_methods(), name);
    case Kind::kRange:
      return name == "copy" ? nullptr : find_in(list_methods(), name);
    case Kind::kDict:
      return find_in(dict_methods(), name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat: {
      const Method* method = find_in(number_methods(), name);
      const bool wants_float = name == "is_integer";
      return method != nullptr && wants_float == (kind == Kind::kFloat) ? method : nullptr;
    }
    case Kind::kLoop:
      return find_in(loop_methods(), name);
    case Kind::kCycler:
      return find_in(cycler_methods(), name);
    default:
      return nullptr;
  }
}

bool refused_attribute(const Value& value, std::string_view name, std::string* why) {
  const bool dunder = name.size() > 4 && name.starts_with("__") && name.ends_with("__");
  const bool mutator =
      (value.is(Kind::kList) && among(name, kListMutators)) || (value.is(Kind::kDict) && among(name, kDictMutators));
  if (mutator || (dunder && !value.is(Kind::kNamespace))) {
    *why = fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value));
    return true;
  }
  const bool absent = (value.is_string() && among(name, kOtherStrMethods)) ||
                      (value.is_number() && among(name, kOtherNumberMethods)) ||
                      (value.is(Kind::kDict) && name == "fromkeys");
  if (absent) *why = fmt::format("the method '{}' of '{}' is not available in chat templates", name, type_name(value));
  return absent;
}

Value invoke(Runtime& rt, const Method& method, const Value& self, const Arguments& arguments) {
  rt.step();
  Call call{rt, self, arguments};
  if (method.variadic) return method.run(call);
  const std::size_t count = parameter_count(method);
  if (arguments.items.size() > count)
    rt.fail("{}() takes at most {} argument{} ({} given)", method.name, count, count == 1 ? "" : "s",
            arguments.items.size());
  std::copy(arguments.items.begin(), arguments.items.end(), call.args.begin());
  for (const NamedValue& named : arguments.named) {
    std::size_t i = 0;
    while (i < count && named.name != method.parameters[i]) ++i;
    if (i == count || !method.keywords)
      rt.fail("{}() got an unexpected keyword argument '{}'", method.name, named.name);
    if (call.has(i)) rt.fail("{}() got multiple values for argument '{}'", method.name, named.name);
    call.args[i] = named.value;
  }
  for (std::size_t i = 0; i < method.required; ++i)
    if (!call.has(i)) rt.fail("{}() is missing the argument '{}'", method.name, method.parameters[i]);
  return method.run(call);
}

Value apply_filter(Runtime& rt, std::string_view name, const Value& self, const Arguments& arguments) {
  const Method* method = find_filter(name);
  if (method == nullptr) rt.fail("{}", unknown_filter(name));
  return invoke(rt, *method, self, arguments);
}

bool apply_test(Runtime& rt, std::string_view name, const Value& self, const Arguments& arguments) {
  const Method* method = find_test(name);
  if (method == nullptr) rt.fail("{}", unknown_test(name));
  return truthy(invoke(rt, *method, self, arguments));
}

Value bind_method(Runtime& rt, const Method& method, const Value& self) {
  Value value = Value::of(Kind::kFunction);
  value.function = rt.make<Function>(Function{&method, self});
  return value;
}

Value text_of(Call& call, std::size_t i) { return to_str(call.rt, call.args[i]); }

const Str& string_arg(Call& call, std::size_t i) {
  if (!call.args[i].is_string()) call.rt.fail("expected a string, got '{}'", type_name(call.args[i]));
  return *call.args[i].str;
}

Int as_index(Runtime& rt, const Value& value) {
  if (!value.is_int()) rt.fail("'{}' object cannot be interpreted as an integer", type_name(value));
  return value.as_int();
}

Int int_arg(Call& call, std::size_t i, Int fallback) {
  return call.has(i) ? as_index(call.rt, call.args[i]) : fallback;
}

bool bool_arg(Call& call, std::size_t i, bool fallback) { return call.has(i) ? truthy(call.args[i]) : fallback; }

}  // namespace fathom::jinja
