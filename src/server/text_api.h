// The endpoints about text alone: tokens, templates.
#pragma once

#include "server/fields.h"
#include "server/service.h"

namespace fathom {

// /tokenize: {"prompt": text} or {"messages": [...]} to {"tokens": [...], "count", "max_model_len"}.
Json tokenize(const Service& service, const Json& body);
// /detokenize: {"tokens": [...]} to {"prompt": text}.
Json detokenize(const Service& service, const Json& body);
// /apply-template: {"messages": [...]} to {"prompt": text}.
Json apply_template(const Service& service, const Json& body);
// /tokenizer_info: the special tokens and the chat template.
Json tokenizer_info(const Service& service);

}  // namespace fathom
