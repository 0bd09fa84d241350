#pragma once
// The two grammars inside configuration values: names of extended resources, and references to devices. Pure.
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::config {

inline constexpr std::string_view kResourcePrefix = "nvidia.com/";
inline constexpr std::size_t kLongestResourceName = 63;

// The full name ("nvidia.com/" added where it is missing), or why kubelet would not take it.
Result<std::string> resource_name(std::string_view text);

// "3", "3:1", "GPU-<uuid>", "MIG-<uuid>" or "MIG-GPU-<uuid>/<n>/<n>".
bool is_device_reference(std::string_view text);

}  // namespace tranche::config
