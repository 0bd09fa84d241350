#pragma once
// This node's connection to the cluster: its pods, reported immediately, events for people, and node conditions.
// Serving pods does not depend on it: without an API server, or without permission, the state is "off" or "waiting"
// with the reason, and everything else works. Loop thread only.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/time.h"
#include "kube/client/kube_link.h"
#include "kube/live/condition_controller.h"
#include "kube/live/event_sender.h"
#include "kube/live/pod_watch.h"

namespace tranche::agent {

// For status and metrics.
struct ClusterReport {
  std::string state = "off";  // "off", "starting", "listing", "watching", "waiting"
  std::string reason;         // why it is off or waiting
  std::string server;
  std::string node;
  std::optional<MonoTime> last_event;
  std::size_t pods = 0;
  std::uint64_t watch_restarts = 0;
  host::KubeCounts requests;
  kube::EventReport events;
  ConditionReport condition;
};

class Cluster {
 public:
  // The link must outlive this object. node_name: the cluster's name of this node. startup_taint: the key of a taint to
  // remove from the node once it is serving; "" = none. on_pods: changes of pods of this node, each in its own
  // callback; on_turn: the report has changed. Neither is called inside the constructor, and neither may destroy the
  // object.
  Cluster(host::Loop& loop, host::KubeLink& link, std::string node_name, std::string startup_taint,
          std::function<void(const kube::PodChanges&)> on_pods, std::function<void()> on_turn);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Sends an event for people (docs/reference/events.md). Merged, rate-limited, and dropped if there is no API server.
  void emit(const kube::ObjectRef& about, const kube::Reason& reason, const std::string& message);
  void emit_on_node(const kube::Reason& reason, const std::string& message);

  // Sets the desired condition TrancheReady of this Node.
  void condition(const kube::NodeCondition& wanted);

  // Sets desired conditions of other types (TrancheMigReady, TrancheDraReady).
  void other_condition(const kube::NodeCondition& wanted);

  // Whether every end of a pod of this node is reported; false also while the API server is unreachable.
  bool watching() const;
  const kube::PodTable& pods() const;  // empty if unknown
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
  std::string off_;  // the reason
  std::string logged_;
  std::unique_ptr<EventSender> events_;
  std::unique_ptr<ConditionController> condition_;
  std::map<std::string, std::unique_ptr<ConditionController>> other_conditions_;  // by type
  std::unique_ptr<PodWatch> watch_;
};

}  // namespace tranche::agent
