#pragma once
// Every event of ours, once: docs/reference/events.md is the same table for people, and a test holds the two together.
#include <array>
#include <string_view>

namespace tranche::kube {

struct Reason {
  std::string_view name;
  bool warning = false;
  std::string_view on;  // "node" or "pod"
  std::string_view meaning;
};

inline constexpr Reason kGpuUnhealthy{"GpuUnhealthy", true, "node",
                                      "Slots of a GPU or MIG device are withdrawn; says which and why."};
inline constexpr Reason kGpuHealthy{"GpuHealthy", false, "node", "They are offered again."};
inline constexpr Reason kMpsPoolDown{
    "MpsPoolDown", true, "node", "A pool that served does not: its slots are withdrawn, new clients are not let in."};
inline constexpr Reason kMpsPoolServing{"MpsPoolServing", false, "node", "It serves again."};
inline constexpr Reason kPagesNotServed{
    "PagesNotServed", true, "node",
    "A program cannot listen for HTTP, mostly because another program has its port: no metrics and no readiness; "
    "everything else works, and the address is tried again."};
inline constexpr Reason kGuardActed{
    "GuardActed", true, "pod",
    "A container went over its share and the guard acted on its clients: by how much, which process "
    "was stopped and ended after how many milliseconds, which other tenants had clients on the GPU."};
inline constexpr Reason kDrained{"Drained", false, "pod",
                                 "CUDA processes of the container were stopped, given time for their queued work, and "
                                 "killed before its stop signal or its SIGKILL: how many, how long, and how many "
                                 "processes of other containers shared the GPU."};
inline constexpr Reason kDrainFailed{"DrainFailed", true, "pod",
                                     "They could not be ended in time, so a signal may have found work in flight."};
inline constexpr Reason kMpsLimitNotUnderstood{
    "MpsLimitNotUnderstood", true, "pod",
    "A limit that the pod sets for itself is not one that the driver understands; says what to write, and whether a "
    "process was kept out of MPS for it."};
inline constexpr Reason kMpsLimitWithoutEffect{"MpsLimitWithoutEffect", false, "pod",
                                               "It is more than the container was granted, which holds."};
inline constexpr Reason kMpsFault{
    "MpsFault", true, "pod", "A fault on the GPU ended clients; says whether this pod caused it or was hit by it."};
inline constexpr Reason kMpsTwoPools{
    "MpsTwoPools", true, "pod",
    "A container holds slots of two MPS pools, and a CUDA process can use one of them only; says what to ask for."};
inline constexpr Reason kShareTaken{
    "ShareTaken", true, "pod",
    "A forced change of the configuration took what the container holds of a GPU; says from what to what."};
inline constexpr Reason kNeighbourAtRisk{"NeighbourAtRisk", true, "node",
                                         "Clients of a pool may have been harmed by the unclean end of another."};
inline constexpr Reason kConfigRefused{"ConfigRefused", true, "node",
                                       "The newest configuration cannot be used; the last good one stays in force."};
inline constexpr Reason kConfigApplied{"ConfigApplied", false, "node", "A changed configuration is in force."};

inline constexpr std::array kAllReasons{
    &kGpuUnhealthy, &kGpuHealthy,  &kMpsPoolDown, &kMpsPoolServing,        &kPagesNotServed,
    &kGuardActed,   &kDrained,     &kDrainFailed, &kMpsLimitNotUnderstood, &kMpsLimitWithoutEffect,
    &kMpsFault,     &kMpsTwoPools, &kShareTaken,  &kNeighbourAtRisk,       &kConfigRefused,
    &kConfigApplied};

}  // namespace tranche::kube
