// Undefined values: what they remember, and Jinja's messages when they are used.
#include "text/jinja/repr.h"
#include "text/jinja/text.h"

namespace fathom::jinja {

namespace {

// The object as Jinja names it in "... has no attribute".
const char* object_name(const Value& object) {
  switch (object.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool object";
    case Kind::kInt:
      return "int object";
    case Kind::kFloat:
      return "float object";
    case Kind::kString:
      return object.str->markup ? "markupsafe.Markup object" : "str object";
    case Kind::kList:
      return "list object";
    case Kind::kTuple:
      return "tuple object";
    case Kind::kDict:
      return "dict object";
    case Kind::kRange:
      return "range object";
    case Kind::kNamespace:
      return "jinja2.utils.Namespace object";
    case Kind::kLoop:
      return "jinja2.runtime.LoopContext object";
    case Kind::kMacro:
      return "jinja2.runtime.Macro object";
    case Kind::kCycler:
      return "jinja2.utils.Cycler object";
    case Kind::kJoiner:
      return "jinja2.utils.Joiner object";
    case Kind::kFunction:
      return "function object";
    case Kind::kGenerator:
      return "generator object";
    case Kind::kView:
      return "dict view object";
    default:
      return "object";
  }
}

}  // namespace

void fail_undefined(Runtime& rt, const Undefined& undefined) {
  if (undefined.hint != nullptr) rt.fail("{}", undefined.hint->view());
  const std::string_view name = undefined.name == nullptr ? "value" : undefined.name->view();
  if (undefined.object == nullptr) rt.fail("'{}' is undefined", name);
  if (!undefined.attribute) rt.fail("{} has no element {}", undefined.object, name);
  rt.fail("'{}' has no attribute '{}'", undefined.object, name);
}

Value undefined_variable(Runtime& rt, const Str* name) {
  Value value = Value::of(Kind::kUndefined);
  value.undefined = rt.make<Undefined>(Undefined{.name = name});
  return value;
}

Value undefined_hint(Runtime& rt, std::string_view hint) {
  Value value = Value::of(Kind::kUndefined);
  value.undefined = rt.make<Undefined>(Undefined{.hint = make_str(rt, hint, false).str});
  return value;
}

Value undefined_member(Runtime& rt, const Value& object, const Value& name) {
  const Str* text = name.is_string() ? name.str : repr(rt, name).str;
  Value value = Value::of(Kind::kUndefined);
  value.undefined =
      rt.make<Undefined>(Undefined{.object = object_name(object), .name = text, .attribute = name.is_string()});
  return value;
}

}  // namespace fathom::jinja
