#pragma once
// Private to src/simulate: looking into an object of Kubernetes, of which only a few fields are of interest: unknown
// keys are not reported. A value of a wrong type is reported once and then counts as absent.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/document/fields.h"

namespace tranche::simulate {

config::Value member(const config::Value& mapping, std::string_view key);      // of repeated keys the last
config::Value mapping_at(const config::Value& mapping, std::string_view key);  // absent or a mapping
std::vector<config::Value> list_at(const config::Value& mapping, std::string_view key);
std::string text_at(const config::Value& mapping, std::string_view key);  // as written; "" when absent

}  // namespace tranche::simulate
