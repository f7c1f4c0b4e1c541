#include "text/jinja/case.h"
#include "text/jinja/iter.h"
#include "text/jinja/method.h"
#include "text/jinja/ops.h"
#include "text/jinja/repr.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

Value yes(bool value) { return Value::boolean(value); }

Value remainder(Call& call, Int divisor) { return binary(call.rt, BinaryOp::kMod, call.self, Value::integer(divisor)); }

Value test_odd(Call& call) { return yes(equals(call.rt, remainder(call, 2), Value::integer(1))); }
Value test_even(Call& call) { return yes(equals(call.rt, remainder(call, 2), Value::integer(0))); }
Value test_divisibleby(Call& call) {
  return yes(equals(call.rt, binary(call.rt, BinaryOp::kMod, call.self, call.args[0]), Value::integer(0)));
}
Value test_defined(Call& call) { return yes(!call.self.is(Kind::kUndefined)); }
Value test_undefined(Call& call) { return yes(call.self.is(Kind::kUndefined)); }
Value test_filter(Call& call) { return yes(call.self.is_string() && find_filter(call.self.str->view()) != nullptr); }
Value test_test(Call& call) { return yes(call.self.is_string() && find_test(call.self.str->view()) != nullptr); }
Value test_none(Call& call) { return yes(call.self.is(Kind::kNone)); }
Value test_boolean(Call& call) { return yes(call.self.is(Kind::kBool)); }
Value test_false(Call& call) { return yes(call.self.is(Kind::kBool) && !call.self.b); }
Value test_true(Call& call) { return yes(call.self.is(Kind::kBool) && call.self.b); }
Value test_integer(Call& call) { return yes(call.self.is(Kind::kInt)); }
Value test_float(Call& call) { return yes(call.self.is(Kind::kFloat)); }
Value test_number(Call& call) { return yes(call.self.is_number()); }
Value test_string(Call& call) { return yes(call.self.is_string()); }
Value test_mapping(Call& call) { return yes(call.self.is(Kind::kDict)); }
Value test_iterable(Call& call) { return yes(iterable(call.self)); }
Value test_escaped(Call& call) { return yes(call.self.is_string() && call.self.str->markup); }

Value cased(Call& call, bool (*wanted)(char32_t), bool (*unwanted)(char32_t)) {
  const Value text = to_str(call.rt, call.self);
  const std::string_view view = text.str->view();
  bool any = false;
  for (std::size_t pos = 0; pos < view.size(); pos += char_size(view, pos)) {
    const char32_t c = char_at(view, pos);
    if (unwanted(c) || is_title(c)) return yes(false);
    any = any || wanted(c);
  }
  return yes(any);
}

Value test_lower(Call& call) { return cased(call, is_lower, is_upper); }
Value test_upper(Call& call) { return cased(call, is_upper, is_lower); }

Value test_sequence(Call& call) {
  switch (call.self.kind) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
      return yes(true);
    default:
      return yes(false);
  }
}

Value test_callable(Call& call) {
  switch (call.self.kind) {
    case Kind::kUndefined:
    case Kind::kLoop:
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kJoiner:
      return yes(true);
    default:
      return yes(false);
  }
}

Value test_sameas(Call& call) { return yes(same(call.self, call.args[0])); }
Value test_in(Call& call) { return yes(contains(call.rt, call.args[0], call.self)); }

template <CompareOp op>
Value test_compare(Call& call) {
  return yes(compare_op(call.rt, op, call.self, call.args[0]));
}

constexpr Method kTable[] = {
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisibleby, 1, {"num"}},
    {"defined", test_defined},
    {"undefined", test_undefined},
    {"filter", test_filter},
    {"test", test_test},
    {"none", test_none},
    {"boolean", test_boolean},
    {"false", test_false},
    {"true", test_true},
    {"integer", test_integer},
    {"float", test_float},
    {"number", test_number},
    {"string", test_string},
    {"mapping", test_mapping},
    {"iterable", test_iterable},
    {"sequence", test_sequence},
    {"callable", test_callable},
    {"escaped", test_escaped},
    {"lower", test_lower},
    {"upper", test_upper},
    {"sameas", test_sameas, 1, {"other"}},
    {"in", test_in, 1, {"seq"}},
    {"==", test_compare<CompareOp::kEq>, 1, {"other"}},
    {"eq", test_compare<CompareOp::kEq>, 1, {"other"}},
    {"equalto", test_compare<CompareOp::kEq>, 1, {"other"}},
    {"!=", test_compare<CompareOp::kNe>, 1, {"other"}},
    {"ne", test_compare<CompareOp::kNe>, 1, {"other"}},
    {">", test_compare<CompareOp::kGt>, 1, {"other"}},
    {"gt", test_compare<CompareOp::kGt>, 1, {"other"}},
    {"greaterthan", test_compare<CompareOp::kGt>, 1, {"other"}},
    {">=", test_compare<CompareOp::kGe>, 1, {"other"}},
    {"ge", test_compare<CompareOp::kGe>, 1, {"other"}},
    {"<", test_compare<CompareOp::kLt>, 1, {"other"}},
    {"lt", test_compare<CompareOp::kLt>, 1, {"other"}},
    {"lessthan", test_compare<CompareOp::kLt>, 1, {"other"}},
    {"<=", test_compare<CompareOp::kLe>, 1, {"other"}},
    {"le", test_compare<CompareOp::kLe>, 1, {"other"}},
};

}  // namespace

std::span<const Method> tests() { return kTable; }

}  // namespace fathom::jinja
