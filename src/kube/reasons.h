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

inline constexpr Reason kGpuUnhealthy{
    "GpuUnhealthy", true, "node",
    "Slots of a GPU or MIG device are withdrawn; the message gives the device and the reason."};
inline constexpr Reason kGpuHealthy{"GpuHealthy", false, "node",
                                    "Slots of the GPU or MIG device are allocatable again."};
inline constexpr Reason kMpsPoolDown{
    "MpsPoolDown", true, "node",
    "An MPS pool stopped serving: its slots are withdrawn, and new clients are not admitted."};
inline constexpr Reason kMpsPoolServing{"MpsPoolServing", false, "node", "The MPS pool is serving again."};
inline constexpr Reason kPagesNotServed{
    "PagesNotServed", true, "node",
    "A program cannot listen for HTTP, usually because its port is in use. Metrics and readiness are not available; "
    "everything else works, and the program tries again."};
inline constexpr Reason kGuardActed{
    "GuardActed", true, "pod",
    "A container exceeded its memory limit and the guard acted on its clients. The message gives the excess, the "
    "process, the times until it was stopped and ended, and the other tenants with clients on the GPU."};
inline constexpr Reason kDrained{"Drained", false, "pod",
                                 "CUDA processes of the container were stopped, given time to finish queued work, and "
                                 "killed before the container's stop signal or SIGKILL. The message gives their "
                                 "number, the time, and how many processes of other containers shared the GPU."};
inline constexpr Reason kDrainFailed{
    "DrainFailed", true, "pod",
    "CUDA processes of the container could not be terminated in time; a signal may have interrupted GPU work."};
inline constexpr Reason kMpsLimitNotUnderstood{"MpsLimitNotUnderstood", true, "pod",
                                               "The driver does not understand a limit that the pod sets. The message "
                                               "gives a valid form, and whether a process was kept out of MPS."};
inline constexpr Reason kMpsLimitWithoutEffect{"MpsLimitWithoutEffect", false, "pod",
                                               "The pod's limit exceeds its grant; the grant applies."};
inline constexpr Reason kMpsFault{
    "MpsFault", true, "pod",
    "A GPU fault terminated clients; the message says whether this pod caused it or was affected by it."};
inline constexpr Reason kMpsTwoPools{
    "MpsTwoPools", true, "pod",
    "A container holds slots of two MPS pools, but a CUDA process can use only one; the message says what to request."};
inline constexpr Reason kShareTaken{"ShareTaken", true, "pod",
                                    "A forced configuration change took away the container's share of a GPU; the "
                                    "message gives the old and the new sharing."};
inline constexpr Reason kNeighbourAtRisk{
    "NeighbourAtRisk", true, "node", "Clients of a pool may have been affected by the unclean exit of another client."};
inline constexpr Reason kConfigRefused{"ConfigRefused", true, "node",
                                       "The newest configuration is invalid; the last valid one stays in effect."};
inline constexpr Reason kConfigApplied{"ConfigApplied", false, "node", "A changed configuration is in effect."};

inline constexpr Reason kMigChanged{"MigChanged", false, "node",
                                    "The GPUs are partitioned by MIG as the node's label asks. The message gives the "
                                    "configuration and what each changed GPU has now."};
inline constexpr Reason kMigWaiting{
    "MigWaiting", false, "node",
    "A MIG change waits for pods or processes that use instances which have to go; the message names them."};
inline constexpr Reason kMigFailed{"MigFailed", true, "node",
                                   "The MIG configuration that the node's label asks for is not in effect; the message "
                                   "gives the reason and what the GPU is partitioned into."};
inline constexpr Reason kMigEviction{"MigEviction", false, "pod",
                                     "The agent evicts the pod because it holds a MIG device that the change removes, "
                                     "or the API server refuses the eviction; the message "
                                     "says which."};

inline constexpr std::array kAllReasons{&kGpuUnhealthy,
                                        &kGpuHealthy,
                                        &kMpsPoolDown,
                                        &kMpsPoolServing,
                                        &kPagesNotServed,
                                        &kGuardActed,
                                        &kDrained,
                                        &kDrainFailed,
                                        &kMpsLimitNotUnderstood,
                                        &kMpsLimitWithoutEffect,
                                        &kMpsFault,
                                        &kMpsTwoPools,
                                        &kShareTaken,
                                        &kNeighbourAtRisk,
                                        &kConfigRefused,
                                        &kConfigApplied,
                                        &kMigChanged,
                                        &kMigWaiting,
                                        &kMigFailed,
                                        &kMigEviction};

}  // namespace tranche::kube
