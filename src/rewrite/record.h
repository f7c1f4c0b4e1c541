// What a conversion writes about itself: manifest.json at its end, manifest.json.partial until then.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "rewrite/rewrite.h"

namespace fathom {

// A hash of all that decides the result of a plan.
std::string plan_key(const RewritePlan& plan);

// What the file says; null when there is none. Throws Error when it is no record of a conversion.
nlohmann::ordered_json read_record(const std::filesystem::path& path);

// The entry of a file with tensors, and that of a small file with this content.
nlohmann::ordered_json record_of(const FileDigest& digest);
nlohmann::ordered_json record_of(std::string_view text);

}  // namespace fathom
