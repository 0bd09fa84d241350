#pragma once
// What `tranche node` offers through Dynamic Resource Allocation, from its snapshot: devices with their faults, and
// their ResourceSlices kept at the API server (slice_publisher.h). Loop thread only.
#include <functional>
#include <optional>
#include <string>

#include "kube/client/kube_link.h"
#include "kube/node_condition.h"
#include "node/dra/slice_publisher.h"
#include "node/snapshot.h"

namespace tranche::node {

// The devices of the configuration and GPUs. A pool that does not serve is a fault of its shared devices.
dra::Devices dra_devices(const NodeView& node);

class DraSlices {
 public:
  // on_change: the report has changed; not from within a call to this object. The link must outlive this object.
  DraSlices(os::Loop& loop, kube::KubeLink& link, const std::string& node_name, std::function<void()> on_change);

  void follow(const NodeView& node);
  SliceReport report() const;
  // The condition TrancheDraReady of the Node; nothing while nothing was ever offered, and while a write is under way.
  std::optional<kube::NodeCondition> condition() const;

 private:
  kube::KubeLink& link_;
  bool named_;
  bool wanted_ = false;
  bool ever_wanted_ = false;
  std::string not_partitioned_;  // why no GPU is partitioned on demand
  SlicePublisher publisher_;
};

}  // namespace tranche::node
