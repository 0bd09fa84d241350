#pragma once
// This node's connection to the cluster: its pods, reported immediately, events for people, and node conditions.
// Serving pods does not depend on it: without an API server, or without permission, the state is "off" or "waiting"
// with the reason, and everything else works. Loop thread only.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "kube/client/kube_client.h"
#include "kube/client/list_watch.h"
#include "kube/event_queue.h"
#include "kube/object.h"
#include "kube/pod.h"
#include "os/loop/loop.h"

namespace tranche::kube {

class ConditionController;

struct ConditionReport {
  std::string written;  // "Serving"; "" = nothing yet
  std::string problem;  // why the newest condition could not be written
  friend bool operator==(const ConditionReport&, const ConditionReport&) = default;
};

// For status and metrics.
struct ClusterReport {
  std::string state = "off";  // "off", "starting", "listing", "watching", "waiting"
  std::string reason;         // why it is off or waiting
  std::string server;
  std::string node;
  std::size_t pods = 0;
  std::uint64_t watch_restarts = 0;
  KubeCounts requests;
  EventReport events;
  ConditionReport condition;
};

class Cluster {
 public:
  // The link must outlive this object. node_name: the cluster's name of this node. startup_taint: the key of a taint to
  // remove from the node once it is serving; "" = none. on_endings: of pods of this node, all that arrived together;
  // on_turn: the pods or the report have changed. Neither is called inside the constructor, and neither may destroy the
  // object.
  Cluster(os::Loop& loop, KubeLink& link, std::string node_name, std::string startup_taint,
          std::function<void(const std::vector<PodEnding>&)> on_endings, std::function<void()> on_turn);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Sends an event for people (docs/reference/events.md). Merged, rate-limited, and dropped if there is no API server.
  void emit(const ObjectRef& about, const Reason& reason, const std::string& message);
  void emit_on_node(const Reason& reason, const std::string& message);

  // Sets the desired condition of its type (TrancheReady, TrancheMigReady, TrancheDraReady) of this Node.
  void condition(const NodeCondition& wanted);

  // Whether every end of a pod of this node is reported; false also while the API server is unreachable.
  bool watching() const;
  const PodTable& pods() const { return pods_; }  // empty if unknown
  ClusterReport report() const;

 private:
  void start();
  void on_pod(const nlohmann::json& object, std::optional<Change> change);
  void on_watch();
  void send_events();

  os::Loop& loop_;
  KubeLink& link_;
  std::string node_name_;
  std::string startup_taint_;
  std::function<void(const std::vector<PodEnding>&)> on_endings_;
  std::function<void()> on_turn_;
  std::uint64_t seed_;
  bool starting_ = true;
  std::string off_;  // the reason
  std::string logged_;
  EventQueue events_;
  PendingRequest event_request_;
  os::Timer event_timer_{loop_};
  std::map<std::string, std::unique_ptr<ConditionController>, std::less<>> conditions_;  // by type
  PodTable pods_;
  std::vector<PodSeen> listed_;       // the pages of an incomplete list
  std::vector<PodEnding> endings_;    // not passed on yet: a burst of events is one callback
  std::unique_ptr<ListWatch> watch_;  // last: it calls the rest
};

}  // namespace tranche::kube
