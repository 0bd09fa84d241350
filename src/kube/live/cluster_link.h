#pragma once
// The cluster, as far as this node has to do with it: its pods, told at once, and events for people. None of it is
// needed to serve pods: without an API server, or without the right to ask it, the state is "off" or "waiting" with the
// reason, and everything else works. Loop thread only.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "kube/client/kube_link.h"
#include "kube/live/condition_keeper.h"
#include "kube/live/event_sender.h"
#include "kube/live/pod_watch.h"

namespace tranche::agent {

// For status and metrics.
struct ClusterReport {
  std::string state = "off";  // "off", "starting", "listing", "watching", "waiting"
  std::string reason;         // why it is off or waits
  std::string server;
  std::string node;
  std::optional<MonoTime> last_news;
  std::size_t pods = 0;
  std::uint64_t watch_restarts = 0;
  host::KubeCounts requests;
  kube::EventReport events;
  ConditionReport condition;
};

class Cluster {
 public:
  // The link must outlive this object. node_name: as the cluster calls this node. startup_taint: the key of a taint
  // that is taken off the node once it serves; "" = none.
  // on_pods: news of pods of this node, one turn each; on_turn: the report has changed. Neither is called from within
  // this constructor, and neither may destroy the object.
  Cluster(host::Loop& loop, host::KubeLink& link, std::string node_name, std::string startup_taint,
          std::function<void(const kube::PodChanges&)> on_pods, std::function<void()> on_turn);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // An event for people (docs/reference/events.md). Merged, limited, and dropped when there is no API server.
  void tell(const kube::ObjectRef& about, const kube::Reason& reason, const std::string& message);
  void tell_node(const kube::Reason& reason, const std::string& message);

  // The condition TrancheReady of this Node, as it should be.
  void condition(const kube::NodeCondition& wanted);

  // Conditions of other types (TrancheMigReady, TrancheDraReady), each as it should be.
  void other_condition(const kube::NodeCondition& wanted);

  // Whether every pod of this node that ends is told; false also while the API server is out of reach.
  bool watching() const;
  const kube::PodTable& pods() const;  // empty when nothing is known
  ClusterReport report() const;

 private:
  void start();

  host::Loop& loop_;
  host::KubeLink& link_;
  std::string node_name_;
  std::function<void(const kube::PodChanges&)> on_pods_;
  std::function<void()> on_turn_;
  std::uint64_t seed_;
  bool starting_ = true;
  std::string off_;  // why
  std::string logged_;
  std::unique_ptr<EventSender> events_;
  std::unique_ptr<ConditionKeeper> condition_;
  std::map<std::string, std::unique_ptr<ConditionKeeper>> other_conditions_;  // by type
  std::unique_ptr<PodWatch> watch_;
};

}  // namespace tranche::agent
