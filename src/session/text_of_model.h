// The tokenizer and the chat template of a model; for a synthetic one without files, those of bytes.
#pragma once

#include <filesystem>

#include "model/source.h"
#include "text/chat/template.h"
#include "text/tokenizer/tokenizer.h"

namespace fathom {

Tokenizer load_tokenizer(const ModelSource& source);

// `file`, where not empty, is taken instead of the model's own template.
ChatTemplate load_chat_template(const ModelSource& source, const std::filesystem::path& file);

}  // namespace fathom
