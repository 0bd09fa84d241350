#pragma once
// The result of reading a configuration, for people and for programs: its Problems, and for every setting the effective
// value and its origin. `tranche check`, `tranche plan --explain` and the log show it. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "config/resolve.h"

namespace tranche::config {

// One line per Problem, then a line that counts them. `path` is the file, "" if none is given.
std::string problems_text(std::string_view path, const std::vector<Problem>& problems);

// A table of path, value and place, one line per setting.
std::string explained_text(const std::vector<Explained>& explained);

// Both as one JSON document (docs/guide/configure.md); `explained` may be nullptr.
nlohmann::ordered_json report_json(std::string_view path, const std::vector<Problem>& problems,
                                   const std::vector<Explained>* explained);

// "flags.migStrategy=single ($MIG_STRATEGY), …": the settings that are not defaults, in one line for the log.
std::string given_line(const std::vector<Explained>& explained);

// The whole configuration for the log: JSON on one line, which parse() reads back to an equal Config (except Places).
std::string render_line(const Config& config);

}  // namespace tranche::config
