#pragma once
// The grammars inside configuration values: names of extended resources, patterns of them, references to devices, and
// patterns of devices. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::config {

inline constexpr std::string_view kResourcePrefix = "nvidia.com/";
inline constexpr std::size_t kLongestResourceName = 63;

// The full name ("nvidia.com/" added where it is missing), or why kubelet would not take it.
Result<std::string> resource_name(std::string_view text);

// A lower-case RFC 1123 subdomain: labels of letters, digits and inner dashes, joined by dots.
bool is_subdomain(std::string_view text);

// What stands for the signs of a pattern of names.
struct NameParts {
  std::string index;           // %d: "0", "0-1" for a MIG device
  std::uint64_t slot_gib = 0;  // %g
  std::string_view model;      // %m: as the driver says it, "NVIDIA H200"
};
// The full pattern of "gpu%d" and the like, or what is wrong with it.
Result<std::string> name_pattern(std::string_view text);
// The pattern with its signs replaced: "nvidia.com/gpu-h200"; may be longer than a name can be.
std::string expand(std::string_view pattern, const NameParts& parts);
// A model as a part of a name: lower case, "NVIDIA " left out, dashes for what a name cannot hold. "" when nothing is
// left.
std::string model_in_names(std::string_view model);

// "0000:3B:00.0", "00000000:3b:00.0" or "3b:00.0" → "00000000:3b:00.0"; nothing for what is no PCI address.
std::optional<std::string> pci_address(std::string_view text);
// Whether `text` is `pattern`, in which each * stands for any characters; upper and lower case are one.
bool matches(std::string_view text, std::string_view pattern);

// "3", "3:1", "GPU-<uuid>", "MIG-<uuid>" or "MIG-GPU-<uuid>/<n>/<n>".
bool is_device_reference(std::string_view text);

}  // namespace tranche::config
