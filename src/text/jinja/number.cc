#include "text/jinja/ops.h"

#include <cmath>

#include "text/jinja/repr.h"

namespace fathom::jinja {

namespace {

[[noreturn]] void fail_overflow(Runtime& rt) { rt.fail("integer overflow: the result does not fit into 128 bits"); }

Int floor_div(Int a, Int b) {
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

double float_mod(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0.0) {
    if ((b < 0) != (rest < 0)) rest += b;
  } else {
    rest = std::copysign(0.0, b);
  }
  return rest;
}

double float_floor_div(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0.0 && (b < 0) != (rest < 0)) quotient -= 1.0;
  if (quotient == 0.0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

// Correctly rounded quotient of two integers where both fit a double exactly; else through long double.
double true_div(Int a, Int b) { return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)); }

Value int_arithmetic(Runtime& rt, BinaryOp op, Int a, Int b, bool content) {
  constexpr Int kExact = Int(1) << 53;
  Int out = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &out)) fail_overflow(rt);
      break;
    case BinaryOp::kSub:
      if (__builtin_sub_overflow(a, b, &out)) fail_overflow(rt);
      break;
    case BinaryOp::kMul:
      if (__builtin_mul_overflow(a, b, &out)) fail_overflow(rt);
      break;
    case BinaryOp::kDiv:
      if (b == 0) rt.fail("division by zero");
      if (a > -kExact && a < kExact && b > -kExact && b < kExact)
        return Value::real(static_cast<double>(a) / static_cast<double>(b), content);
      return Value::real(true_div(a, b), content);
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod:
      if (b == 0) rt.fail_text(op == BinaryOp::kMod ? "integer modulo by zero" : "integer division or modulo by zero");
      if (b == -1) {  // the one divisor whose quotient may overflow
        if (op == BinaryOp::kMod) break;
        if (__builtin_sub_overflow(Int(0), a, &out)) fail_overflow(rt);
      } else {
        out = floor_div(a, b);
        if (op == BinaryOp::kMod) out = a - out * b;
      }
      break;
    case BinaryOp::kPow:
      break;
  }
  return Value::integer(out, content);
}

}  // namespace

double as_double(Runtime& rt, const Value& number) {
  (void)rt;
  return number.is(Kind::kFloat) ? number.f : static_cast<double>(number.as_int());
}

Value power(Runtime& rt, const Value& a, const Value& b) {
  const bool content = a.content || b.content;
  if (a.is_int() && b.is_int() && b.as_int() >= 0) {
    Int base = a.as_int(), out = 1;
    for (Int left = b.as_int(); left > 0; left >>= 1) {
      if ((left & 1) != 0 && __builtin_mul_overflow(out, base, &out)) fail_overflow(rt);
      if (left > 1 && __builtin_mul_overflow(base, base, &base)) {
        if (out == 0) break;
        fail_overflow(rt);
      }
    }
    return Value::integer(out, content);
  }
  const double x = as_double(rt, a), y = as_double(rt, b);
  if (x == 0.0 && y < 0) rt.fail("0.0 cannot be raised to a negative power");
  if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y))
    rt.fail("a negative number cannot be raised to a fractional power");
  const double out = std::pow(x, y);
  if (std::isinf(out) && std::isfinite(x) && std::isfinite(y)) rt.fail("the result of ** is too large");
  return Value::real(out, content);
}

Value arithmetic(Runtime& rt, BinaryOp op, const Value& a, const Value& b) {
  const bool content = a.content || b.content;
  if (op == BinaryOp::kPow) return power(rt, a, b);
  if (a.is_int() && b.is_int()) return int_arithmetic(rt, op, a.as_int(), b.as_int(), content);
  const double x = as_double(rt, a), y = as_double(rt, b);
  switch (op) {
    case BinaryOp::kAdd:
      return Value::real(x + y, content);
    case BinaryOp::kSub:
      return Value::real(x - y, content);
    case BinaryOp::kMul:
      return Value::real(x * y, content);
    default:
      break;
  }
  if (y == 0.0) rt.fail("float division or modulo by zero");
  if (op == BinaryOp::kDiv) return Value::real(x / y, content);
  return Value::real(op == BinaryOp::kMod ? float_mod(x, y) : float_floor_div(x, y), content);
}

}  // namespace fathom::jinja
