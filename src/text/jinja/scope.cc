#include "text/jinja/scope.h"

#include <functional>
#include <map>
#include <string>

#include "text/jinja/method.h"

namespace fathom::jinja {

namespace {

// The variables of one frame while the tree is being analysed. A frame is the template itself, a pass of a loop, a
// macro, or the inside of a call, filter, set or with block; `if` makes none.
//
// A name gets a place in a frame in one of two ways. Read: only if no frame around it has the name; then it is looked
// up in the context whenever the frame is entered. Written: always; then it starts from the frame around it if that
// knows the name, else unset (or from the context when written inside an `if`).
struct Symbols {
  Symbols* parent;
  Frame* frame;
  std::map<std::string, std::int32_t, std::less<>> slots;

  std::int32_t add(std::string_view name, Load load) {
    load.slot = frame->size++;
    frame->loads.push_back(load);
    slots.emplace(name, load.slot);
    return load.slot;
  }

  bool find(std::string_view name, std::int32_t* hops, std::int32_t* slot) const {
    *hops = 0;
    for (const Symbols* at = this; at != nullptr; at = at->parent, ++*hops) {
      const auto it = at->slots.find(name);
      if (it == at->slots.end()) continue;
      *slot = it->second;
      return true;
    }
    return false;
  }

  void read(const Str& name) {
    std::int32_t hops, slot;
    if (!find(name.view(), &hops, &slot)) add(name.view(), {.how = Load::How::kContext, .name = name});
  }

  void write(const Str& name, bool in_branch) {
    if (slots.contains(name.view())) return;
    Load load{.how = in_branch ? Load::How::kContext : Load::How::kUndefined, .name = name};
    if (parent != nullptr && parent->find(name.view(), &load.hops, &load.outer_slot)) load.how = Load::How::kOuter;
    add(name.view(), load);
  }

  std::int32_t parameter(std::string_view name) {
    if (const auto it = slots.find(name); it != slots.end()) {
      for (Load& load : frame->loads)
        if (load.slot == it->second) load.how = Load::How::kParameter;
      return it->second;
    }
    return add(name, {.how = Load::How::kParameter});
  }
};

// Calls `visit` for the expression and everything in it.
void walk(Expr* expr, const std::function<void(Expr&)>& visit) {
  if (expr == nullptr) return;
  visit(*expr);
  walk(expr->left, visit), walk(expr->right, visit);
  for (Expr* item : expr->items) walk(item, visit);
  for (Keyword& keyword : expr->keywords) walk(keyword.value, visit);
  walk(expr->star, visit), walk(expr->star_star, visit);
}

// Calls `visit` for every expression of the statements, nested ones included.
void walk(const Body& body, const std::function<void(Expr&)>& visit) {
  for (Stmt* stmt : body) {
    walk(stmt->target, visit), walk(stmt->expr, visit), walk(stmt->test, visit);
    for (Expr* expr : stmt->targets) walk(expr, visit);
    for (Expr* expr : stmt->values) walk(expr, visit);
    for (Parameter& parameter : stmt->parameters) walk(parameter.fallback, visit);
    for (Branch& branch : stmt->branches) walk(branch.condition, visit), walk(branch.body, visit);
    walk(stmt->body, visit), walk(stmt->other, visit);
  }
}

bool mentions(const Body& body, std::string_view name) {
  bool found = false;
  walk(body, [&](Expr& expr) { found = found || (expr.kind == ExprKind::kName && expr.text.view() == name); });
  return found;
}

class Resolver {
 public:
  explicit Resolver(Template& out) : out_(out) {}

  void run() {
    Symbols root{nullptr, &out_.frame, {}};
    declare(root, out_.body, false);
    bind(root, out_.body, {});
  }

 private:
  // Where a statement stands: inside conditions unknown filters are no error yet; `loop` says what break may leave.
  struct Place {
    bool soft = false;
    bool loop = false;
  };

  [[noreturn]] void fail(std::uint32_t pos, const std::string& text) const { fail_at(out_.source, pos, text); }

  // First pass over one frame: gives places to the names, in the order in which they are met.
  static void declare_reads(Symbols& symbols, Expr* expr) {
    walk(expr, [&](Expr& e) {
      if (e.kind == ExprKind::kName || e.kind == ExprKind::kNsRef) symbols.read(e.text);
    });
  }

  static void declare_target(Symbols& symbols, Expr* target, bool in_branch, bool parameter) {
    if (target->kind == ExprKind::kTuple) {
      for (Expr* item : target->items) declare_target(symbols, item, in_branch, parameter);
    } else if (target->kind == ExprKind::kNsRef) {
      symbols.read(target->text);
    } else if (parameter) {
      symbols.parameter(target->text.view());
    } else {
      symbols.write(target->text, in_branch);
    }
  }

  void declare(Symbols& symbols, const Body& body, bool in_branch) {
    for (Stmt* stmt : body) {
      switch (stmt->kind) {
        case StmtKind::kIf:
          for (Branch& branch : stmt->branches) {
            declare_reads(symbols, branch.condition);
            declare(symbols, branch.body, true);
          }
          break;
        case StmtKind::kSet:
          declare_reads(symbols, stmt->expr);
          declare_target(symbols, stmt->target, in_branch, false);
          break;
        case StmtKind::kSetBlock:
          declare_target(symbols, stmt->target, in_branch, false);
          break;
        case StmtKind::kMacro:
          symbols.write(stmt->text, in_branch);
          break;
        case StmtKind::kWith:
          for (Expr* value : stmt->values) declare_reads(symbols, value);
          break;
        default:
          declare_reads(symbols, stmt->expr);
      }
    }
  }

  // Second pass: every name of the frame gets its place, and the frames inside are analysed.
  void bind(Symbols& symbols, Expr* expr, Place place) {
    walk(expr, [&](Expr& e) {
      if (e.kind == ExprKind::kName || e.kind == ExprKind::kNsRef) {
        if (!symbols.find(e.text.view(), &e.hops, &e.slot)) {
          symbols.read(e.text);
          symbols.find(e.text.view(), &e.hops, &e.slot);
        }
      }
    });
    check_names(expr, place.soft);
  }

  void check_names(const Expr* expr, bool soft) const {
    if (expr == nullptr || soft) return;
    if (expr->kind == ExprKind::kFilter && find_filter(expr->text.view()) == nullptr)
      fail(expr->pos, unknown_filter(expr->text.view()));
    if (expr->kind == ExprKind::kTest && find_test(expr->text.view()) == nullptr)
      fail(expr->pos, unknown_test(expr->text.view()));
    const bool inner = expr->kind == ExprKind::kCondition;
    check_names(expr->left, inner), check_names(expr->right, inner);
    for (const Expr* item : expr->items) check_names(item, inner);
    for (const Keyword& keyword : expr->keywords) check_names(keyword.value, inner);
    check_names(expr->star, inner), check_names(expr->star_star, inner);
  }

  void bind(Symbols& symbols, const Body& body, Place place) {
    for (Stmt* stmt : body) bind(symbols, *stmt, place);
  }

  void bind(Symbols& symbols, Stmt& stmt, Place place) {
    switch (stmt.kind) {
      case StmtKind::kData:
        break;
      case StmtKind::kOutput:
        bind(symbols, stmt.expr, place);
        break;
      case StmtKind::kIf:
        for (Branch& branch : stmt.branches) {
          bind(symbols, branch.condition, {true, place.loop});
          bind(symbols, branch.body, {true, place.loop});
        }
        break;
      case StmtKind::kFor:
        bind_for(symbols, stmt, place);
        break;
      case StmtKind::kSet:
        bind(symbols, stmt.expr, place);
        bind(symbols, stmt.target, place);
        break;
      case StmtKind::kMacro:
        bind_macro(symbols, stmt);
        std::int32_t hops;
        symbols.find(stmt.text.view(), &hops, &stmt.slot);
        break;
      case StmtKind::kCallBlock:
        bind_macro(symbols, stmt);
        bind(symbols, stmt.expr, place);
        break;
      case StmtKind::kSetBlock:
      case StmtKind::kFilterBlock:
      case StmtKind::kScope:
      case StmtKind::kWith:
        bind_inner(symbols, stmt, place);
        break;
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        if (!place.loop)
          fail(stmt.pos, stmt.kind == StmtKind::kBreak ? "'break' outside loop" : "'continue' outside loop");
    }
  }

  void bind_inner(Symbols& symbols, Stmt& stmt, Place place) {
    Symbols inner{&symbols, &stmt.frame, {}};
    if (stmt.kind == StmtKind::kWith) {
      for (Expr* target : stmt.targets) declare_target(inner, target, false, true);
      for (Expr* value : stmt.values) bind(symbols, value, place);
    }
    declare(inner, stmt.body, false);
    if (stmt.kind != StmtKind::kWith) declare_reads(inner, stmt.expr);
    for (Expr* target : stmt.targets) bind(inner, target, place);
    bind(inner, stmt.body, {false, place.loop});
    bind(inner, stmt.expr, {false, place.loop});
    bind(symbols, stmt.target, place);
  }

  void refuse_loop_targets(const Stmt& stmt) const {
    const auto check = [&](const Expr* target, const auto& self) -> void {
      if (target == nullptr) return;
      if (target->kind == ExprKind::kName && target->text.view() == "loop")
        fail(target->pos, "Can't assign to special loop variable in for-loop target");
      if (target->kind == ExprKind::kTuple)
        for (const Expr* item : target->items) self(item, self);
    };
    check(stmt.target, check);
    for (const Expr* target : stmt.targets) check(target, check);
    for (const Body* body : {&stmt.body, &stmt.other})
      for (const Stmt* inner : *body) refuse_loop_targets(*inner);
    for (const Branch& branch : stmt.branches)
      for (const Stmt* inner : branch.body) refuse_loop_targets(*inner);
  }

  void bind_for(Symbols& symbols, Stmt& stmt, Place place) {
    refuse_loop_targets(stmt);
    bind(symbols, stmt.expr, place);
    Symbols inner{&symbols, &stmt.frame, {}};
    stmt.slot = inner.parameter("loop");
    declare_target(inner, stmt.target, false, true);
    declare(inner, stmt.body, false);
    bind(inner, stmt.target, {});
    bind(inner, stmt.body, {false, true});
    Symbols other{&symbols, &stmt.else_frame, {}};
    declare(other, stmt.other, false);
    bind(other, stmt.other, {false, place.loop && !stmt.recursive});
    if (stmt.test == nullptr) return;
    // The test runs in a frame of its own, laid out so that the targets have the same places as in the loop.
    Symbols test{&symbols, &stmt.test_frame, {}};
    test.add("", {.how = Load::How::kParameter});
    declare_target(test, stmt.target, false, true);
    declare_reads(test, stmt.test);
    bind(test, stmt.test, {});
  }

  void bind_macro(Symbols& symbols, Stmt& stmt) {
    Symbols inner{&symbols, &stmt.frame, {}};
    bool explicit_caller = false;
    for (Parameter& parameter : stmt.parameters) {
      parameter.slot = inner.parameter(parameter.name.view());
      explicit_caller = explicit_caller || parameter.name.view() == "caller";
      if (parameter.name.view() == "caller" && parameter.fallback == nullptr && mentions(stmt.body, "caller"))
        fail(stmt.pos, "the special \"caller\" argument must be omitted or be given a default");
    }
    const auto special = [&](std::string_view name, bool is_parameter) -> std::int32_t {
      return !is_parameter && mentions(stmt.body, name) ? inner.parameter(name) : -1;
    };
    const auto is_parameter = [&](std::string_view name) { return inner.slots.contains(name); };
    stmt.caller_slot = special("caller", explicit_caller);
    stmt.kwargs_slot = special("kwargs", is_parameter("kwargs"));
    stmt.varargs_slot = special("varargs", is_parameter("varargs"));
    for (Parameter& parameter : stmt.parameters) declare_reads(inner, parameter.fallback);
    declare(inner, stmt.body, false);
    for (Parameter& parameter : stmt.parameters) bind(inner, parameter.fallback, {});
    bind(inner, stmt.body, {});
  }

  Template& out_;
};

}  // namespace

void resolve_scopes(Template& out) { Resolver(out).run(); }

}  // namespace fathom::jinja
