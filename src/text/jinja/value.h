// The values of a template: Python's types as Jinja shows them, each piece of text knowing where it came from.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

__extension__ using Int = __int128;

struct Stmt;
struct Method;
struct Value;
class Iter;

enum class Kind : std::uint8_t {
  kMissing,  // no value at all: an unset variable or an argument that was not given
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,       // dict.keys(), dict.values(), dict.items()
  kGenerator,  // what map, select and their kin give: read once, in order
  kNamespace,
  kLoop,
  kMacro,
  kFunction,  // a built-in function or a method bound to its value
  kCycler,
  kJoiner,
};

// A half-open range of bytes.
struct Span {
  std::size_t begin = 0, end = 0;
};

// Immutable UTF-8 text. `content` lists, in order and apart, the byte ranges that came from the caller's variables.
struct Str {
  const char* data = "";
  std::size_t size = 0;   // bytes
  std::size_t chars = 0;  // code points
  const Span* content = nullptr;
  std::size_t content_count = 0;
  bool markup = false;  // made by escape or safe: joined with plain text, the plain text is escaped

  std::string_view view() const { return {data, size}; }
  bool ascii() const { return chars == size; }
};

struct Undefined {
  const Str* hint = nullptr;     // the whole message, when there is one
  const char* object = nullptr;  // what was looked into, such as "dict object"; null for a variable
  const Str* name = nullptr;     // what was looked for
  bool attribute = true;         // looked for by name, not by another kind of key
};

struct List;
struct Dict;
struct Range {
  Int start = 0, stop = 0, step = 1;
  Int size() const {
    return step > 0 ? (stop > start ? (stop - start + step - 1) / step : 0)
                    : (start > stop ? (start - stop - step - 1) / -step : 0);
  }
};
struct View;
struct Generator;
struct Namespace;
struct Loop;
struct Macro;
struct Function;
struct Cycler;
struct Joiner;

// One value: a tag and a number or a pointer into the Runtime's memory. Copying shares.
struct Value {
  Kind kind = Kind::kMissing;
  bool content = false;  // a scalar that came from the caller's variables, or was computed from one
  union {
    bool b;
    Int i = 0;
    double f;
    const Str* str;
    const Undefined* undefined;
    List* list;  // also tuples
    Dict* dict;
    const Range* range;
    const View* view;
    Generator* generator;
    Namespace* space;
    Loop* loop;
    const Macro* macro;
    const Function* function;
    Cycler* cycler;
    Joiner* joiner;
  };

  bool is(Kind k) const { return kind == k; }
  bool missing() const { return kind == Kind::kMissing; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_int() const { return kind == Kind::kInt || kind == Kind::kBool; }  // Python's bool is an int
  bool is_number() const { return is_int() || kind == Kind::kFloat; }
  bool is_sequence() const { return kind == Kind::kList || kind == Kind::kTuple; }
  Int as_int() const { return kind == Kind::kBool ? Int(b) : i; }

  static Value none() { return of(Kind::kNone); }
  static Value boolean(bool x) {
    Value v = of(Kind::kBool);
    v.b = x;
    return v;
  }
  static Value integer(Int x, bool content = false) {
    Value v = of(Kind::kInt);
    v.i = x;
    v.content = content;
    return v;
  }
  static Value real(double x, bool content = false) {
    Value v = of(Kind::kFloat);
    v.f = x;
    v.content = content;
    return v;
  }
  static Value string(const Str* x) {
    Value v = of(Kind::kString);
    v.str = x;
    return v;
  }
  static Value list_of(List* x, Kind kind = Kind::kList) {
    Value v = of(kind);
    v.list = x;
    return v;
  }
  static Value of(Kind kind) {
    Value v;
    v.kind = kind;
    return v;
  }
};

// A growing array; a tuple is one that nobody appends to any more.
struct List {
  Value* items = nullptr;
  std::size_t size = 0, capacity = 0;
  bool group = false;  // a tuple made by groupby, with the names `grouper` and `list`

  void push(Runtime& rt, const Value& value);
  const Value* begin() const { return items; }
  const Value* end() const { return items + size; }
  const Value& operator[](std::size_t i) const { return items[i]; }
};

// A dictionary in order of insertion; more than a few entries get a hash index.
struct Dict {
  struct Entry {
    Value key, value;
    std::uint64_t hash = 0;
  };
  Entry* entries = nullptr;
  std::size_t size = 0, capacity = 0;
  std::uint32_t* index = nullptr;  // entry number + 1, 0 where free
  std::size_t index_size = 0;      // a power of two

  // The value of `key`, or null. Fails for a key that Python cannot hash.
  Value* find(Runtime& rt, const Value& key) const;
  Value* find(Runtime& rt, std::string_view key) const;
  void set(Runtime& rt, const Value& key, const Value& value);
  const Entry* begin() const { return entries; }
  const Entry* end() const { return entries + size; }

 private:
  Entry* locate(Runtime& rt, const Value& key, std::uint64_t hash) const;
  void grow(Runtime& rt);
};

enum class ViewKind : std::uint8_t { kKeys, kValues, kItems };
struct View {
  Dict* dict = nullptr;
  ViewKind kind = ViewKind::kItems;
};

struct Generator {
  Iter* iter = nullptr;
  const char* type = "generator";
};

struct Namespace {
  Dict* attributes = nullptr;
};

struct Cycler {
  List* items = nullptr;
  std::size_t pos = 0;
};

struct Joiner {
  Value separator;
  bool used = false;
};

// The variables of one frame of the template, and the frame around it.
struct Scope {
  Value* slots = nullptr;
  Scope* parent = nullptr;
};

struct Macro {
  const Stmt* definition = nullptr;
  Scope* scope = nullptr;  // where it was defined
};

struct Function {
  const Method* method = nullptr;
  Value self;  // missing for a global function
};

// Python's name of the value's type, as its error messages print it.
const char* type_name(const Value& value);

bool truthy(const Value& value);
// Python's `==`.
bool equals(Runtime& rt, const Value& a, const Value& b);
// Python's `is`.
bool same(const Value& a, const Value& b);
// Below zero, zero or above it as a < b, a == b, a > b; `op` names the operator in the error for unordered types.
int compare(Runtime& rt, const Value& a, const Value& b, const char* op);
std::uint64_t hash_of(Runtime& rt, const Value& value);
// Python's len(); fails for values without one.
Int length_of(Runtime& rt, const Value& value);

// Fails with Jinja's message for the use of an undefined value.
[[noreturn]] void fail_undefined(Runtime& rt, const Undefined& undefined);
Value undefined_variable(Runtime& rt, const Str* name);
Value undefined_hint(Runtime& rt, std::string_view hint);
// The undefined value of a missing attribute or element `name` of `object`.
Value undefined_member(Runtime& rt, const Value& object, const Value& name);

Value make_list(Runtime& rt, List** out);
Value make_tuple(Runtime& rt, std::initializer_list<Value> items);

}  // namespace fathom::jinja
