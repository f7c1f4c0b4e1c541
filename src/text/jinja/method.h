// Everything a template can call by name: filters, tests, methods of values and global functions, as tables of rows.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace fathom::jinja {

struct NamedValue {
  std::string_view name;
  Value value;
};

// What stands between the parentheses of a call, evaluated.
struct Arguments {
  std::span<const Value> items;
  std::span<const NamedValue> named;
};

inline constexpr std::size_t kMaxParameters = 6;

// One call of a built-in: the value before the dot or bar, and the arguments by parameter, missing where not given.
struct Call {
  Runtime& rt;
  Value self;
  const Arguments& all;
  std::array<Value, kMaxParameters> args{};

  bool has(std::size_t i) const { return !args[i].missing(); }
  // Whether parameter `i` was given and is not None.
  bool given(std::size_t i) const { return has(i) && !args[i].is(Kind::kNone); }
};

using Function1 = Value (*)(Call&);

// A built-in with its parameters. A variadic one reads `Call::all` itself.
struct Method {
  const char* name;
  Function1 run;
  std::size_t required = 0;
  std::array<const char*, kMaxParameters> parameters{};
  bool variadic = false;
  bool keywords = true;  // parameters may be given by name
};

const Method* find_filter(std::string_view name);
const Method* find_test(std::string_view name);
const Method* find_global(std::string_view name);
// The method `name` of values of this kind; null if there is none.
const Method* find_method(Kind kind, std::string_view name);
// Whether Python has such an attribute on this kind of value and templates may not touch it or we do not offer it;
// then `why` says so.
bool refused_attribute(const Value& value, std::string_view name, std::string* why);

std::string unknown_filter(std::string_view name);
std::string unknown_test(std::string_view name);

// Binds the arguments to the parameters and runs; `what` is "filter", "test" or "function" for error messages.
Value invoke(Runtime& rt, const Method& method, const Value& self, const Arguments& arguments);
Value apply_filter(Runtime& rt, std::string_view name, const Value& self, const Arguments& arguments);
bool apply_test(Runtime& rt, std::string_view name, const Value& self, const Arguments& arguments);
// The same as a value to be called later.
Value bind_method(Runtime& rt, const Method& method, const Value& self);

// The tables, one a file.
std::span<const Method> text_filters();
std::span<const Method> layout_filters();
std::span<const Method> sequence_filters();
std::span<const Method> selection_filters();
std::span<const Method> number_filters();
std::span<const Method> tests();
std::span<const Method> globals();
std::span<const Method> text_methods();
std::span<const Method> split_methods();
std::span<const Method> class_methods();
std::span<const Method> list_methods();
std::span<const Method> dict_methods();
std::span<const Method> number_methods();
std::span<const Method> loop_methods();
std::span<const Method> cycler_methods();

// The argument as Python's str(); the argument as a string that must be one; as an index.
Value text_of(Call& call, std::size_t i);
const Str& string_arg(Call& call, std::size_t i);
Int int_arg(Call& call, std::size_t i, Int fallback);
bool bool_arg(Call& call, std::size_t i, bool fallback);
// An integer operand of any operation, else Python's error.
Int as_index(Runtime& rt, const Value& value);

}  // namespace fathom::jinja
