#pragma once
// The reasons of all events that Tranche sends. docs/reference/events.md says what each means; a test compares the two.
#include <string_view>

namespace tranche::kube {

struct Reason {
  std::string_view name;
  bool warning = false;
};

inline constexpr Reason kGpuUnhealthy{"GpuUnhealthy", true};
inline constexpr Reason kGpuHealthy{"GpuHealthy", false};
inline constexpr Reason kMpsPoolDown{"MpsPoolDown", true};
inline constexpr Reason kMpsPoolServing{"MpsPoolServing", false};
inline constexpr Reason kPagesNotServed{"PagesNotServed", true};
inline constexpr Reason kGuardActed{"GuardActed", true};
inline constexpr Reason kMpsLimitNotUnderstood{"MpsLimitNotUnderstood", true};
inline constexpr Reason kMpsLimitWithoutEffect{"MpsLimitWithoutEffect", false};
inline constexpr Reason kMpsFault{"MpsFault", true};
inline constexpr Reason kMpsTwoPools{"MpsTwoPools", true};
inline constexpr Reason kNeighbourAtRisk{"NeighbourAtRisk", true};
inline constexpr Reason kConfigRefused{"ConfigRefused", true};
inline constexpr Reason kConfigApplied{"ConfigApplied", false};
inline constexpr Reason kMigChanged{"MigChanged", false};
inline constexpr Reason kMigWaiting{"MigWaiting", false};
inline constexpr Reason kMigFailed{"MigFailed", true};
inline constexpr Reason kMigEviction{"MigEviction", false};

}  // namespace tranche::kube
