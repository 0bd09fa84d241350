#pragma once
// What `tranche node` offers through Dynamic Resource Allocation, from its snapshot (slice_publisher.h publishes it).
// Pure.
#include "dra/dra_devices.h"
#include "node/snapshot.h"

namespace tranche::node {

// The devices of the configuration and GPUs. A pool that does not serve is a fault of its shared devices.
dra::Devices dra_devices(const NodeView& node);

}  // namespace tranche::node
