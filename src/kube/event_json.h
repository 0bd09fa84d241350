#pragma once
// Events: their reasons and their objects. Pure.
#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "os/clock/clock.h"

namespace tranche::kube {

// The reasons of all events that Tranche sends. docs/reference/events.md says what each means; a test compares the two.
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

// The object of an event.
struct ObjectRef {
  std::string kind;              // "Pod", "Node", "ResourceClaim"
  std::string object_namespace;  // "" for a node
  std::string name;
  std::string uid;
  friend auto operator<=>(const ObjectRef&, const ObjectRef&) = default;

  // The uid is the name, where `kubectl describe node` looks.
  static ObjectRef node(const std::string& name) { return {"Node", "", name, name}; }
  static ObjectRef pod(std::string pod_namespace, std::string name, std::string uid) {
    return {"Pod", std::move(pod_namespace), std::move(name), std::move(uid)};
  }
  static ObjectRef claim(std::string claim_namespace, std::string name, std::string uid) {
    return {"ResourceClaim", std::move(claim_namespace), std::move(name), std::move(uid)};
  }
};

inline constexpr std::size_t kLongestMessage = 1024;  // the API server's limit

// "2025-03-04T12:01:02Z"
inline std::string utc_seconds(WallTime time) {
  return os::utc_text(time).substr(0, std::string_view("2025-03-04T12:01:02").size()) + "Z";
}

}  // namespace tranche::kube
