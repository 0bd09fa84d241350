#pragma once
// The names that Kubernetes accepts for extended resources: "domain/name", outside kubernetes.io. Pure.
#include <string_view>

namespace tranche::sim {

bool is_dns_subdomain(std::string_view text);  // lower case, at most 253 characters
bool is_dns_label(std::string_view text);      // one label of it, at most 63 characters
bool is_extended_resource(std::string_view name);

}  // namespace tranche::sim
