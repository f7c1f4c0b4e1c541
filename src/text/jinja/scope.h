// Settles where each variable of a template lives, by the rules that Jinja's compiler follows.
#pragma once

#include "text/jinja/ast.h"

namespace fathom::jinja {

// Fills frames, hops and slots of the tree and refuses what Jinja refuses when compiling: unknown filters and tests
// outside conditions, assignments to `loop` in loops, break and continue outside loops.
void resolve_scopes(Template& out);

}  // namespace fathom::jinja
