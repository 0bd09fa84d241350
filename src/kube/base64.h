#pragma once
// Base64 as kubeconfig files have it: the standard alphabet, padding required, white space ignored. Pure.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::kube {

std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace tranche::kube
