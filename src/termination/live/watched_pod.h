#pragma once
// The pod watch's news as what Stopping wants to know. Pure.
#include "kube/pod_table.h"
#include "termination/live/container_stops.h"

namespace tranche::agent {

WatchedPod watched_pod(const kube::PodChange& change);
WatchedPod watched_pod(const kube::PodSeen& pod);

// "SIGTERM", "SIGRTMIN+3" as Kubernetes names them → the number; 0 for a name that is not known.
int signal_number(std::string_view name);

}  // namespace tranche::agent
