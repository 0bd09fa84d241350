#pragma once
// For tests: a GPU in ten slots under MPS, two of them held by the container main of a pod.
#include "grants/allocate/grant.h"
#include "node/snapshot.h"

namespace tranche::node::fixture {

inline const std::vector<std::string> kSlots{"GPU-0::0", "GPU-0::1"};

inline Snapshot held_by_a_pod(const std::string& pod_namespace, const std::string& pod) {
  Snapshot snapshot;
  plan::PlannedDevice device;
  device.uuid = device.gpu_uuid = "GPU-0";
  device.index = "0";
  device.slots = 10;
  device.memory = mib(100000);
  device.sm_count = 132;
  device.pool = "gpu-0";
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu";
  resource.sharing = config::SharingStrategy::kMps;
  resource.devices = {device};
  snapshot.plan.resources = {resource};
  snapshot.holdings = {{pod_namespace, pod, "main", "nvidia.com/gpu", kSlots}};
  return snapshot;
}

inline Snapshot limited(Snapshot snapshot, Bytes memory, Percent threads) {
  snapshot.shares.own()[{grants::grant_id(kSlots), "GPU-0"}] = {"gpu-0", "nvidia.com/gpu", memory, threads};
  snapshot.holders = holders(snapshot, {});
  return snapshot;
}

}  // namespace tranche::node::fixture
