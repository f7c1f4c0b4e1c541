// The messages and tools of a chat request, as a chat template takes them.
#pragma once

#include "server/fields.h"

namespace fathom {

// The template's variables for a body of OpenAI's chat dialect: messages with plain texts, tools unless tool_choice is
// "none", add_generation_prompt, and all of chat_template_kwargs. Throws ApiError naming what it cannot take.
Json chat_variables(const Fields& fields);

}  // namespace fathom
