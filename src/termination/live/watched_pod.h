#pragma once
// Converts the pod watch's reports to the input of Stopping. Pure.
#include "kube/pod_table.h"
#include "termination/live/container_stops.h"

namespace tranche::agent {

WatchedPod watched_pod(const kube::PodChange& change);
WatchedPod watched_pod(const kube::PodSeen& pod);

// "SIGTERM", "SIGRTMIN+3" in Kubernetes notation → the number; 0 for an unknown name.
int signal_number(std::string_view name);

}  // namespace tranche::agent
