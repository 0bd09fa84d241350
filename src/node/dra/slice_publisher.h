#pragma once
// Keeps the ResourceSlices of this node what they should be: it watches those of its driver on its node, and writes
// when they differ from what is wanted, also after a different program (kubelet, an administrator) deleted them. At
// rest it sends nothing. Before the first write a dry run shows which fields the API server keeps; shared devices are
// published only where they stay shared. With nothing wanted, and nothing ever wanted before, it asks the API server
// for nothing; slices of an earlier process go with kubelet, which deletes those of a driver that is not registered.
// Slices that a different program changes again and again (an older agent during a rolling update) are restored less
// and less often.
//
// What to write is dra/slices.h. A refusal is retried with a growing delay, at most 5 minutes, and reported. Loop
// thread only.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "dra/slices.h"
#include "kube/client/list_watch.h"
#include "kube/object.h"
#include "node/dra/dra_report.h"
#include "os/loop/loop.h"

namespace tranche::node {

struct SliceWish {
  std::string driver;  // "" = no slices
  dra::Devices devices;
  bool known = true;  // false: the driver has not reported all devices yet, so what was published before stays
  friend bool operator==(const SliceWish&, const SliceWish&) = default;
};

class SlicePublisher {
 public:
  // on_change: the report may have changed; never called from within a call to this object.
  // With `node` "", nothing is published.
  SlicePublisher(os::Loop& loop, kube::KubeLink& link, std::string node, std::function<void()> on_change);
  SlicePublisher(const SlicePublisher&) = delete;
  SlicePublisher& operator=(const SlicePublisher&) = delete;

  void want(SliceWish wish);
  SliceReport report() const;
  // The condition TrancheDraReady of the Node; nothing while nothing was ever wanted, and while a write is under way.
  // not_partitioned: why no GPU is partitioned on demand.
  std::optional<kube::NodeCondition> condition(const std::string& not_partitioned) const;

 private:
  using Answer = kube::KubeAnswer;
  void on_list(bool whole);
  void on_object(const nlohmann::json& object, std::optional<kube::Change> change);
  void disturbed();
  void step_soon();
  void step();
  void follow_driver();
  void probe();
  void find_node();
  void write(const dra::SliceWrite& write);
  void on_written(const dra::SliceWrite& write, const Answer& answer);
  bool failed(const Answer& answer, const char* what);  // true: tried again later
  void settled();

  os::Loop& loop_;
  kube::KubeLink& link_;
  const std::string node_;
  const std::uint64_t seed_;
  std::function<void()> on_change_;
  Backoff backoff_;
  Backoff restoring_;  // between two restorations of what a different program changes again and again
  std::optional<MonoTime> disturbed_at_;
  bool ever_wanted_ = false;
  SliceWish wish_;
  std::string driver_;  // whose slices are watched; "" = none
  std::optional<dra::Features> features_;
  std::string node_uid_;
  dra::SliceLedger ledger_;
  std::vector<dra::StoredSlice> listed_;  // the pages of a list that is not whole yet
  bool conflict_ = false;                 // the last write met one
  bool mismatch_ = false;                 // the server stored something else, since it had all the last time
  bool settled_ = false;
  SliceReport now_;  // what is withheld, the problem, how many devices and writes; report() has the rest
  kube::PendingRequest request_;
  os::Timer retry_{loop_};
  os::Timer soon_{loop_};
  std::unique_ptr<kube::ListWatch> watch_;  // last: it calls the rest
};

}  // namespace tranche::node
