// Runs a parsed template: statements write text, expressions give values.
#pragma once

#include <span>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/method.h"
#include "text/jinja/text.h"

namespace fathom::jinja {

// One rendering of one template.
class Evaluator {
 public:
  // `variables` is a dictionary of what the template may read by name.
  Evaluator(Runtime& rt, const Template& source, const Dict& variables)
      : rt_(rt), template_(source), variables_(variables) {}

  // The whole output; its content spans are the text that came from the variables.
  Value run();

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  // Statements (eval.cc).
  Flow exec(const Body& body, Scope& scope, StrBuilder& out);
  Flow exec(const Stmt& stmt, Scope& scope, StrBuilder& out);
  Flow exec_if(const Stmt& stmt, Scope& scope, StrBuilder& out);
  Flow exec_for(const Stmt& stmt, Scope& scope, StrBuilder& out);
  Flow run_loop(const Stmt& stmt, Scope& scope, const Value& items, Int depth0, StrBuilder& out);
  Flow exec_set_block(const Stmt& stmt, Scope& scope);
  Flow exec_filter_block(const Stmt& stmt, Scope& scope, StrBuilder& out);
  Flow exec_with(const Stmt& stmt, Scope& scope, StrBuilder& out);
  void exec_call_block(const Stmt& stmt, Scope& scope, StrBuilder& out);
  void append_text(StrBuilder& out, const Value& value);  // of blocks, whose value must be a string
  void define_macro(const Stmt& stmt, Scope& scope);
  void assign(const Expr& target, const Value& value, Scope& scope);
  Value read_target(const Expr& target, Scope& scope);
  void check_namespaces(const Expr& target, Scope& scope);

  // Frames.
  Scope* enter(const Frame& frame, Scope* parent);
  void load(const Frame& frame, Scope& scope);
  Value from_context(const Str& name);
  static Value& slot(Scope& scope, const Expr& name);

  // Expressions (eval_expr.cc). `block` is the text that a filter without a left side works on.
  Value eval(const Expr& expr, Scope& scope, const Value* block = nullptr);
  Value eval_name(const Expr& expr, Scope& scope);
  Value eval_items(const Expr& expr, Scope& scope, Kind kind);
  Value eval_dict(const Expr& expr, Scope& scope);
  Value eval_item(const Expr& expr, Scope& scope);
  Value eval_filter(const Expr& expr, Scope& scope, const Value* block);
  Value eval_test(const Expr& expr, Scope& scope);
  Value eval_concat(const Expr& expr, Scope& scope);
  Value eval_compare(const Expr& expr, Scope& scope);
  Value eval_condition(const Expr& expr, Scope& scope);
  Value eval_call(const Expr& expr, Scope& scope, const Value* caller);

  // Calls (call.cc).
  struct Collected {
    std::vector<Value> items;
    std::vector<NamedValue> named;
    Arguments get() const { return {items, named}; }
  };
  Collected arguments(const Expr& expr, Scope& scope, const Value* caller = nullptr);
  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  Value call_loop(Loop& loop, const Arguments& arguments);
  void bind_parameters(const Stmt& macro, const Arguments& arguments, Scope& scope);

  friend class TestedIter;

  Runtime& rt_;
  const Template& template_;
  const Dict& variables_;
};

}  // namespace fathom::jinja
