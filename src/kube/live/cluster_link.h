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
#include <vector>

#include "base/time.h"
#include "kube/client/kube_client.h"
#include "kube/client/kube_link.h"
#include "kube/client/list_watch.h"
#include "kube/event_queue.h"
#include "kube/live/condition_controller.h"
#include "kube/pod.h"
#include "os/loop/loop.h"

namespace tranche::kube {

// The pods of this node, as the API server reports them: listed once, then watched (src/kube/reflector.h). Input from
// the API server is bounded: pods of other nodes are ignored, and a list of more than kMostPods pods or kMostPages
// pages counts as failed. Loop thread only.
class PodWatch {
 public:
  static constexpr std::size_t kMostPods = 2000;  // kubelet runs 110 by default, and some hundreds if configured
  static constexpr int kMostPages = 50;

  // on_pods: called with all changes that arrived together, never inside the constructor; it must not destroy this
  // object. on_turn: also if only the state of the watch has changed.
  PodWatch(os::Loop& loop, KubeClient& client, const std::string& node, std::uint64_t seed,
           std::function<void(const PodChanges&)> on_pods, std::function<void()> on_turn);

  const PodTable& pods() const { return table_; }
  const Reflector& reflector() const { return watch_.reflector(); }
  std::optional<MonoTime> last_event() const { return last_event_; }  // a list or an event, bookmarks included

 private:
  Result<ListHead> on_page(std::string_view body, bool first);
  Result<WatchEvent> on_line(std::string_view line);
  void apply(PodChanges changes);

  os::Loop& loop_;
  const std::string node_;
  std::function<void(const PodChanges&)> on_pods_;
  PodTable table_;
  std::vector<PodSeen> listed_;  // the pages of an incomplete list
  int pages_ = 0;
  PodChanges changes_;  // not passed on yet: a burst of events is one callback
  std::optional<MonoTime> last_event_;
  ListWatch watch_;  // last: it calls the rest
};

// Sends the requests of EventQueue, one at a time, when they are due. Loop thread only.
class EventSender {
 public:
  // on_answer: after each request; it must not destroy this object.
  EventSender(os::Loop& loop, EventSettings settings, std::function<void()> on_answer)
      : loop_(loop), on_answer_(std::move(on_answer)), queue_(std::move(settings)) {}
  ~EventSender();
  EventSender(const EventSender&) = delete;
  EventSender& operator=(const EventSender&) = delete;

  void emit(const ObjectRef& about, const Reason& reason, const std::string& message);
  void use(KubeClient& client);  // everything waits for this call
  const EventReport& report() const { return queue_.report(); }

 private:
  void step();

  os::Loop& loop_;
  std::function<void()> on_answer_;
  KubeClient* client_ = nullptr;
  EventQueue queue_;
  KubeClient::Id call_ = 0;
  os::Timer timer_{loop_};
};

// For status and metrics.
struct ClusterReport {
  std::string state = "off";  // "off", "starting", "listing", "watching", "waiting"
  std::string reason;         // why it is off or waiting
  std::string server;
  std::string node;
  std::optional<MonoTime> last_event;
  std::size_t pods = 0;
  std::uint64_t watch_restarts = 0;
  KubeCounts requests;
  EventReport events;
  ConditionReport condition;
};

class Cluster {
 public:
  // The link must outlive this object. node_name: the cluster's name of this node. startup_taint: the key of a taint to
  // remove from the node once it is serving; "" = none. on_pods: changes of pods of this node, each in its own
  // callback; on_turn: the report has changed. Neither is called inside the constructor, and neither may destroy the
  // object.
  Cluster(os::Loop& loop, KubeLink& link, std::string node_name, std::string startup_taint,
          std::function<void(const PodChanges&)> on_pods, std::function<void()> on_turn);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Sends an event for people (docs/reference/events.md). Merged, rate-limited, and dropped if there is no API server.
  void emit(const ObjectRef& about, const Reason& reason, const std::string& message);
  void emit_on_node(const Reason& reason, const std::string& message);

  // Sets the desired condition of its type (TrancheReady, TrancheMigReady, TrancheDraReady) of this Node.
  void condition(const NodeCondition& wanted);

  // Whether every end of a pod of this node is reported; false also while the API server is unreachable.
  bool watching() const;
  const PodTable& pods() const;  // empty if unknown
  ClusterReport report() const;

 private:
  void start();

  os::Loop& loop_;
  KubeLink& link_;
  std::string node_name_;
  std::string startup_taint_;
  std::function<void(const PodChanges&)> on_pods_;
  std::function<void()> on_turn_;
  std::uint64_t seed_;
  bool starting_ = true;
  std::string off_;  // the reason
  std::string logged_;
  EventSender events_;
  std::map<std::string, std::unique_ptr<ConditionController>, std::less<>> conditions_;  // by type
  std::unique_ptr<PodWatch> watch_;
};

}  // namespace tranche::kube
