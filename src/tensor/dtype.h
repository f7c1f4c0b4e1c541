// Element types: size, name, and the names that safetensors files use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.h"

namespace fathom {

// `unknown`: a type that only its file knows; nothing reads such elements.
enum class DType : std::uint8_t { f32, bf16, f16, e4m3, e8m0, i32, i64, u8, boolean, unknown };

// Bytes an element; 0 where that is not known.
i64 size_of(DType dtype);

// Short name for messages and reports: "f32", "bf16", "e4m3", ...
std::string_view name_of(DType dtype);

// The safetensors spelling ("F32", "BF16", "F8_E4M3", ...) and back; nullopt for a name that is not known here.
std::string_view safetensors_name(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);

}  // namespace fathom
