// The tree of a template: what the parser makes and the evaluator walks. Immutable once made.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace fathom::jinja {

struct Expr;

struct Keyword {
  std::string name;
  Expr* value = nullptr;
};

enum class BinaryOp : std::uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class CompareOp : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

enum class ExprKind : std::uint8_t {
  kConst,      // constant
  kName,       // name, hops, slot
  kNsRef,      // name.attribute as a target of set: name, text (attribute), hops, slot
  kList,       // items
  kTuple,      // items
  kDict,       // items: key, value, key, value ...
  kGetAttr,    // left.constant
  kGetItem,    // left[right]
  kSlice,      // items: start, stop, step, each may be null; only right of kGetItem
  kCall,       // left(items, keywords, *star, **star_star)
  kFilter,     // left|text(...); left is null for the text of a block
  kTest,       // left is text(...)
  kNot,        // not left
  kNegate,     // -left
  kPositive,   // +left
  kBinary,     // left op right
  kAnd,        // left and right
  kOr,         // left or right
  kConcat,     // items joined by ~
  kCompare,    // left ops[0] items[0] ops[1] items[1] ...
  kCondition,  // items[0] if left else right; right may be null
};

// One expression. Which fields count is said by `kind`.
struct Expr {
  ExprKind kind = ExprKind::kConst;
  std::uint32_t pos = 0;    // byte offset in the template
  std::uint32_t depth = 1;  // levels below this one, to keep the evaluation off the end of the stack
  BinaryOp op = BinaryOp::kAdd;
  std::int32_t hops = 0;  // frames outwards to the variable
  std::int32_t slot = 0;  // its place in that frame
  Str text;               // name, attribute, filter or test name; the characters of a string constant
  Value constant;
  Expr* left = nullptr;
  Expr* right = nullptr;
  std::vector<Expr*> items;
  std::vector<CompareOp> ops;
  std::vector<Keyword> keywords;
  Expr* star = nullptr;
  Expr* star_star = nullptr;
};

enum class StmtKind : std::uint8_t {
  kData,         // text
  kOutput,       // expr
  kIf,           // branches
  kFor,          // target, expr (items), test, body, other, recursive; frame, else_frame, test_frame
  kSet,          // target, expr
  kSetBlock,     // target, expr (filter chain or null), body; frame
  kMacro,        // name, parameters, body; frame, slot (where it is stored)
  kCallBlock,    // expr (the call), parameters, body; frame; `generation` when it marks the model's own turns
  kFilterBlock,  // expr (filter chain), body; frame
  kWith,         // targets, values, body; frame
  kScope,        // body; frame
  kBreak,
  kContinue,
};

struct Stmt;
using Body = std::vector<Stmt*>;

struct Branch {
  Expr* condition = nullptr;  // null for else
  Body body;
};

// How a variable of a frame gets its first value whenever the frame is entered.
struct Load {
  enum class How : std::uint8_t { kParameter, kUndefined, kContext, kOuter } how = How::kUndefined;
  std::int32_t slot = 0;
  std::int32_t hops = 0, outer_slot = 0;  // kOuter, counted from the frame around this one
  Str name = {};                          // kContext
};

struct Frame {
  std::vector<Load> loads;
  std::int32_t size = 0;
};

struct Parameter {
  Str name;
  Expr* fallback = nullptr;
  std::int32_t slot = 0;
};

// One statement. Which fields count is said by `kind`.
struct Stmt {
  StmtKind kind = StmtKind::kData;
  std::uint32_t pos = 0;
  Str text;
  std::string name;
  Expr* target = nullptr;
  Expr* expr = nullptr;
  Expr* test = nullptr;
  Body body, other;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  std::vector<Expr*> targets, values;
  bool recursive = false;
  bool generation = false;
  Frame frame, else_frame, test_frame;
  std::int32_t slot = 0;
  std::int32_t caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;  // of macros that use these names
};

// A parsed template with all that it points to.
struct Template {
  std::string source;  // with line ends as \n
  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  std::deque<std::string> texts;
  std::deque<Str> strings;
  Body body;
  Frame frame;
};

}  // namespace fathom::jinja
