#pragma once
// Carries out the decisions of termination/stopping.h: collects the state of pods that are being deleted, has their
// clients drained in time, and has a pool re-tested after an unclean death.
// All inputs are passed in: pods from the watch, holdings from kubelet, clients from the pools' reports, and actions as
// functions. Without a pod watch it does nothing. Loop thread only.
#include <sys/types.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/shared_list.h"
#include "kube/pod.h"
#include "mps/protocol/replies.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "termination/live/drain_program.h"
#include "termination/stopping.h"

namespace tranche::agent {

struct WatchedContainer {
  std::string name = {};
  bool hooked = false;    // lifecycle.preStop.exec begins with tranche-drain (is_drain_hook())
  Duration sleeps{};      // lifecycle.preStop.sleep
  int stop_signal = 0;    // status.containerStatuses[].stopSignal as a number; 0 = not reported
  bool own_hook = false;  // any other lifecycle.preStop
};

// A pod of this node as the watch reports it.
struct WatchedPod {
  std::string uid = {};
  std::string pod_namespace = {};
  std::string name = {};
  bool mirror = false;                 // a static pod's mirror: deleting it stops nothing, so it is ignored
  std::optional<Duration> grace = {};  // deletionGracePeriodSeconds; absent: it is not being deleted
  MonoTime seen{};                     // when that was received
  bool gone = false;                   // DELETED
  std::vector<WatchedContainer> containers = {};
  bool over = false;  // no container of it runs any more
  std::vector<kube::ClaimUseSeen> claims = {};
};

// The container that holds an endpoint, as reported by kubelet.
struct HeldEndpoint {
  std::string pod_namespace = {};
  std::string pod = {};  // "": any pod that uses the claim
  std::string container = {};
  std::string pool = {};
  std::string grant = {};
  std::string claim = {};  // of the holding; `container` is then the claim's request
};

// Whether a preStop exec command is tranche-drain, which drains before the stop signal by itself.
bool is_drain_hook(std::span<const std::string> command);

struct StopEvent {
  enum class What { kDrained, kDrainFailed };
  What what = What::kDrained;
  std::string pod_namespace = {};  // "" if the pod is not known
  std::string pod = {};
  std::string uid = {};
  std::string container = {};
  std::string pool = {};
  std::string grant = {};
  std::string message = {};  // one sentence for an event
};

struct StoppingCallbacks {
  using Done = std::function<void(const Result<EndReply>& reply)>;
  // Ends clients (the drain request on mps.sock). Calls `done` once, in a callback of its own.
  std::function<void(const stopping::Drain&, Done done)> drain;
  std::function<void(const StopEvent&)> on_event;
};

struct StoppingReport {
  struct Recent {
    MonoTime at{};
    std::string pod;  // "namespace/name/container"
    std::string grant;
    std::string reason;
    std::string outcome;  // "ended", "nothing to end", or the reason for a failure
    friend bool operator==(const Recent&, const Recent&) = default;
  };
  DrainOffer offer;
  std::vector<Recent> recent;  // the newest last
  friend bool operator==(const StoppingReport&, const StoppingReport&) = default;
};

class Stopping {
 public:
  // `hook_offered`: containers have tranche-drain (DrainOffer); without it, a tranche-drain hook cannot start and has
  // no effect.
  Stopping(host::Loop& loop, StoppingCallbacks callbacks, bool hook_offered);
  ~Stopping();
  Stopping(const Stopping&) = delete;
  Stopping& operator=(const Stopping&) = delete;

  void set_stop_patience(Duration patience);           // sharing.mps.stopPatience
  void pods_changed(std::vector<WatchedPod> changed);  // added, modified or deleted (watched_pod.h)
  void holdings(SharedList<HeldEndpoint> all);
  // kubelet has just requested the grant: it does not belong to a pod whose deletion was seen before, even of the same
  // name.
  void granted(const std::string& grant);
  // Clients by grant; a grant that is missing has none. Absent: not known now.
  void clients(std::optional<std::map<std::string, std::vector<pid_t>>> by_grant);

  StoppingReport report() const;  // without the offer, which the program adds

 private:
  void take(WatchedPod changed);
  bool is_of(const HeldEndpoint& endpoint, const WatchedPod& pod) const;
  bool holds_alone(const std::string& claim, const WatchedPod& pod) const;
  void turn();
  void settle_gone();
  std::vector<stopping::StoppingPod> stopping_pods() const;
  std::vector<stopping::Holding> holdings_of(const WatchedPod& pod) const;
  stopping::Holding holding_of(const WatchedPod& pod, const HeldEndpoint& endpoint) const;
  void start(const stopping::Drain& drain);
  void drained(const stopping::Drain& drain, const Result<EndReply>& reply);
  void arm(std::optional<MonoTime> next);

  host::Loop& loop_;
  StoppingCallbacks callbacks_;
  bool hook_offered_;
  std::map<std::string, WatchedPod> pods_;                           // by uid
  std::map<std::string, std::vector<HeldEndpoint>> gone_endpoints_;  // of force-deleted pods, as they held them
  SharedList<HeldEndpoint> holdings_;
  std::map<std::string, MonoTime> granted_;  // grants that kubelet requested, with the latest time
  std::optional<std::map<std::string, std::vector<pid_t>>> clients_;
  stopping::Settings settings_;
  stopping::State state_;
  std::deque<StoppingReport::Recent> recent_;
  host::Timer timer_{loop_};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // responses may arrive after destruction
};

}  // namespace tranche::agent
