#pragma once
// Base64 as in kubeconfig files: the standard alphabet, padding required, white space ignored when it is read. Pure.
#include <optional>
#include <string>
#include <string_view>

namespace tranche::kube {

std::optional<std::string> base64_decoded(std::string_view text);
std::string base64_encoded(std::string_view bytes);

}  // namespace tranche::kube
