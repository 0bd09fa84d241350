#pragma once
// Config → a file with the same configuration: JSON, which parse() reads back to an equal Config (except Places). For
// the log and tests. Pure.
#include <string>

#include "config/model.h"

namespace tranche::config {

std::string render_json(const Config& config);
std::string render_line(const Config& config);  // the same without white space

}  // namespace tranche::config
