#pragma once
// All events that Tranche sends: docs/reference/events.md has the same table for people, and a test compares the two.
#include <array>
#include <string_view>

namespace tranche::kube {

struct Reason {
  std::string_view name;
  bool warning = false;
  std::string_view on;  // "node" or "pod"
  std::string_view meaning;
};

inline constexpr Reason kGpuUnhealthy{"GpuUnhealthy", true, "node", "Slots of a GPU or MIG device are withdrawn."};
inline constexpr Reason kGpuHealthy{"GpuHealthy", false, "node", "The slots are allocatable again."};
inline constexpr Reason kMpsPoolDown{
    "MpsPoolDown", true, "node", "An MPS pool stopped serving; its slots are withdrawn, and it admits no new clients."};
inline constexpr Reason kMpsPoolServing{"MpsPoolServing", false, "node", "The pool serves again."};
inline constexpr Reason kPagesNotServed{"PagesNotServed", true, "node",
                                        "A program cannot listen for HTTP, usually because its port is in use, and "
                                        "tries again; only metrics and readiness are missing."};
inline constexpr Reason kGuardActed{"GuardActed", true, "pod",
                                    "A container exceeded its memory limit and the guard acted on its clients."};
inline constexpr Reason kMpsLimitNotUnderstood{"MpsLimitNotUnderstood", true, "pod",
                                               "The driver does not understand a limit that the pod sets."};
inline constexpr Reason kMpsLimitWithoutEffect{"MpsLimitWithoutEffect", false, "pod",
                                               "The pod's limit exceeds its grant; the grant applies."};
inline constexpr Reason kMpsFault{"MpsFault", true, "pod",
                                  "The pod caused a GPU fault that terminated clients, or lost clients to one."};
inline constexpr Reason kMpsTwoPools{"MpsTwoPools", true, "pod",
                                     "A container holds slots of two MPS pools, of which a CUDA process can use one."};
inline constexpr Reason kNeighbourAtRisk{"NeighbourAtRisk", true, "node",
                                         "The unclean exit of a client may have affected other clients of the pool."};
inline constexpr Reason kConfigRefused{"ConfigRefused", true, "node",
                                       "The newest configuration is invalid; the last valid one stays in effect."};
inline constexpr Reason kConfigApplied{"ConfigApplied", false, "node", "A changed configuration is in effect."};

inline constexpr Reason kMigChanged{"MigChanged", false, "node", "The GPUs are partitioned as the node's label asks."};
inline constexpr Reason kMigWaiting{"MigWaiting", false, "node", "A MIG change waits for pods or processes."};
inline constexpr Reason kMigFailed{"MigFailed", true, "node",
                                   "The MIG configuration of the node's label is not in effect."};
inline constexpr Reason kMigEviction{
    "MigEviction", false, "pod",
    "The pod holds a MIG device that a change removes: it is evicted, or the API server refuses the eviction."};

inline constexpr std::array kAllReasons{&kGpuUnhealthy,
                                        &kGpuHealthy,
                                        &kMpsPoolDown,
                                        &kMpsPoolServing,
                                        &kPagesNotServed,
                                        &kGuardActed,
                                        &kMpsLimitNotUnderstood,
                                        &kMpsLimitWithoutEffect,
                                        &kMpsFault,
                                        &kMpsTwoPools,
                                        &kNeighbourAtRisk,
                                        &kConfigRefused,
                                        &kConfigApplied,
                                        &kMigChanged,
                                        &kMigWaiting,
                                        &kMigFailed,
                                        &kMigEviction};

}  // namespace tranche::kube
