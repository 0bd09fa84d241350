#pragma once
// The words for the values of each enumeration in files, flags and variables. Pure.
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "config/model.h"

namespace tranche::config {

inline constexpr std::array kMigStrategies{MigStrategy::kNone, MigStrategy::kSingle, MigStrategy::kMixed};
inline constexpr std::array kListStrategies{ListStrategy::kEnvvar, ListStrategy::kVolumeMounts,
                                            ListStrategy::kCdiAnnotations, ListStrategy::kCdiCri};
inline constexpr std::array kIdStrategies{IdStrategy::kUuid, IdStrategy::kIndex};
inline constexpr std::array kAllocationPolicies{AllocationPolicy::kDistributed, AllocationPolicy::kPacked};
inline constexpr std::array kDiscoveryStrategies{DiscoveryStrategy::kAuto, DiscoveryStrategy::kNvml,
                                                 DiscoveryStrategy::kTegra, DiscoveryStrategy::kVfio};
inline constexpr std::array kComputeModePolicies{ComputeModePolicy::kExclusive, ComputeModePolicy::kLeave};
inline constexpr std::array kEndpointPolicies{EndpointPolicy::kRelay, EndpointPolicy::kLink};
inline constexpr std::array kDraDevicesPolicies{DraDevices::kNone, DraDevices::kAll};
inline constexpr std::array kDraPartitionPolicies{DraPartitions::kStatic, DraPartitions::kOnDemand};
inline constexpr std::array kSplitPolicies{SplitPolicy::kReject, SplitPolicy::kSpan};
inline constexpr std::array kSmRoundings{SmRounding::kUp, SmRounding::kDown, SmRounding::kOff};

template <class Enum>
std::string word(Enum value) {
  return std::string(to_string(value));
}

template <class Enum, std::size_t N>
std::optional<Enum> from_word(std::string_view word, const std::array<Enum, N>& values) {
  for (const Enum value : values)
    if (to_string(value) == word) return value;
  return std::nullopt;
}

// "none, single or mixed"
template <class Enum, std::size_t N>
std::string text_of_all(const std::array<Enum, N>& values) {
  std::string text;
  for (std::size_t i = 0; i < N; ++i) {
    if (i > 0) text += i + 1 == N ? " or " : ", ";
    text += to_string(values[i]);
  }
  return text;
}

// The boolean values of flags and variables, which are Go's.
inline std::optional<bool> parse_switch(std::string_view text) {
  for (const char* word : {"1", "t", "T", "true", "True", "TRUE"})
    if (text == word) return true;
  for (const char* word : {"0", "f", "F", "false", "False", "FALSE"})
    if (text == word) return false;
  return std::nullopt;
}

}  // namespace tranche::config
