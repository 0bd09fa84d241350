#pragma once
// The grammars of configuration values: names of extended resources, patterns of them, references to devices, and
// patterns of devices. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tranche::config {

inline constexpr std::string_view kResourcePrefix = "nvidia.com/";
inline constexpr std::size_t kLongestResourceName = 63;

// The full name ("nvidia.com/" is added if missing), or why kubelet would refuse it.
Result<std::string> resource_name(std::string_view text);

// A lower-case RFC 1123 subdomain: labels of letters, digits and inner dashes, joined by dots.
bool is_subdomain(std::string_view text);

// The replacements of placeholders in a pattern of names.
struct NameParts {
  std::string index;           // %d: "0", "0-1" for a MIG device
  std::uint64_t slot_gib = 0;  // %g
  std::string_view model;      // %m: as the driver reports it, "NVIDIA H200"
};
// The full pattern of "gpu%d" and the like, or the error in it.
Result<std::string> name_pattern(std::string_view text);
// The pattern with its placeholders replaced: "nvidia.com/gpu-h200"; may be longer than a valid name.
std::string expand(std::string_view pattern, const NameParts& parts);
// A model as a part of a name: lower case, without "NVIDIA ", dashes for invalid characters. "" if nothing is left.
std::string model_in_names(std::string_view model);

// "0000:3B:00.0", "00000000:3b:00.0" or "3b:00.0" → "00000000:3b:00.0"; absent if the text is not a PCI address.
std::optional<std::string> pci_address(std::string_view text);
// Whether `text` matches `pattern`, in which each * matches any characters; case-insensitive.
bool matches(std::string_view text, std::string_view pattern);

// "3", "3:1", "GPU-<uuid>", "MIG-<uuid>" or "MIG-GPU-<uuid>/<n>/<n>".
bool is_device_reference(std::string_view text);

}  // namespace tranche::config
