#pragma once
// The ledger of this node's grants: which slots are held, the limits of each grant, and when a grant's endpoint may be
// removed. Its sources are the agent's answers to kubelet (Allocate), kubelet's lists (PodResources), prepared claims,
// the API server's reports of ended pods, and the records of the previous agent. The ledger decides; the agent asks and
// acts. One thread. Pure: `now` and `asked` are passed in and never go back.
//
// In doubt a grant is held: kubelet lists a grant a moment after the answer to Allocate, and lists nothing for a moment
// after its own start. If slots were freed too early, two containers would get them; if an endpoint were removed too
// early, a running container would lose its GPU for good.
//
//   * Slots are free when two consecutive lists do not name them, `confirm` apart, or `confirm_none` apart while
//     kubelet names no container at all.
//   * A grant keeps the limits that it was given. If the ledger has lost them, it uses those of the endpoint in
//     `tranche mps`, otherwise those of the plan. The record of a claim always takes precedence.
//   * An endpoint is removed after the first list without its grant if the API server reports the end of its pod,
//     otherwise after two lists without it, `endpoint_confirm` apart. The time between the two is `endpoint_unlisted`
//     for a grant that kubelet never listed to this agent, and for each grant while kubelet lists nothing; in these two
//     cases an endpoint with a living client stays. The clients of an endpoint are ended when it is removed.
//   * An endpoint without clients keeps a pool that is no longer planned from ending, so it is removed as soon as its
//     slots are free.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "grants/allocate/grant.h"
#include "grants/grant_shares.h"
#include "plan/plan.h"

namespace tranche::grants {

struct Patience {
  Duration listed_within = std::chrono::seconds(5);  // kubelet lists each grant that a container uses
  Duration confirm = std::chrono::seconds(2);
  Duration confirm_none = std::chrono::seconds(10);
  Duration named_within = std::chrono::seconds(10);  // how long kubelet is asked which container has a grant
  Duration endpoint_confirm = std::chrono::minutes(1);
  Duration endpoint_unlisted = std::chrono::minutes(10);
  Duration pod_end_counts = std::chrono::minutes(1);  // while kubelet still lists the pod
  Duration forget = std::chrono::minutes(10);         // limits of a grant that kubelet does not name
};
inline constexpr Patience kPatience{};

// A grant's endpoint, as its pool reports it.
struct Endpoint {
  std::string pool;
  std::string grant;
  bool has_clients = false;
  std::uint64_t made = 0;          // which endpoint of the grant
  std::vector<GrantLimit> limits;  // of clients; empty: it has none
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// Prefix of the name of a claim that replaces a pod's: a pod's name cannot have a colon.
inline constexpr std::string_view kClaimAsPod = "claim:";

// A container, or a request of a claim, and what it holds.
struct Holder : Held {  // `pod`: kClaimAsPod and the name of a claim that any pod may use
  std::vector<GrantLimit> devices;
  std::string grant;       // its endpoint's name, "" without MPS
  std::string claim = {};  // of the holding; "": held by slots
  std::string claim_uid = {};
  std::string pool = {};  // that has the endpoint; "": not known
  // As reported by the API server; "" and false while only kubelet knows the pod.
  std::string pod_uid = {};
  std::string container_id = {};  // "containerd://…"
  bool deleting = false;

  friend bool operator==(const Holder&, const Holder&) = default;
};
std::string holder_name(const Holder& holder);  // "namespace/pod/container"
// Holders with the same key are one tenant: the grants of a container. A request of a claim is a tenant of its own,
// whatever the names of the claim, its request and its pod, because users choose these names.
std::string tenant_key(const Holder& holder);

class Ledger {
 public:
  Ledger() = default;
  explicit Ledger(Shares kept);

  // kubelet gives a slot to one container at a time, so the former holder is forgotten, and the grant has no tenant
  // until kubelet names one.
  void given(const Grant& grant, MonoTime now);
  // The UID of the holder's pod, as the API server reports it; "" where it reports none that runs.
  using RunningPod = std::function<std::string(const Held&)>;
  // kubelet's list, requested at `asked`; it may name other vendors' devices. For seconds after its own start, kubelet
  // has not read the API server's pods yet and lists none: what a pod holds that still runs stays as it was, so that
  // names, figures, and the stop of its clients before a deletion do not wait for kubelet.
  // `running` must be current: with what the API server reported long ago, a pod that is gone would hold its slots.
  void listed(const std::vector<Held>& list, MonoTime asked, const RunningPod& running = {});
  void not_answered(std::string why) { unknown_ = std::move(why); }
  // All holders that are known by name. `endpoints`: absent while `tranche mps` does not answer; the first source of
  // limits that the ledger has lost. `complete`: kubelet has answered, so that other holders may be forgotten. A claim
  // is forgotten once it is not prepared and has no endpoint, whether kubelet answers or not.
  void named(const std::vector<Holder>& holders, const plan::Plan& plan,
             const std::optional<std::vector<Endpoint>>& endpoints, bool complete, MonoTime now);
  // As reported by the API server.
  void pod_ended(const std::string& pool, const std::string& grant, MonoTime now);

  // Why the held slots are not known; "" = they are known.
  const std::string& unknown() const { return unknown_; }
  std::vector<Held> held() const;
  // Those that have names, without slots that were given to another container since.
  std::vector<Held> as_listed() const;
  // Slots may be free: kubelet's next list decides.
  bool in_doubt() const;
  // Its last list has a pod that is over or gone, or lacks one that runs.
  bool behind() const { return behind_; }

  const Shares& shares() const { return shares_; }  // the agent stores them
  // A grant was given a moment ago, and kubelet has not named its container yet; or the previous agent recorded a grant
  // that no source has named to this agent.
  bool awaits_name(MonoTime now) const;

  // After a list from kubelet: the endpoints to remove, again after each list until they are gone.
  std::vector<Endpoint> over(const std::vector<Endpoint>& endpoints, MonoTime now);
  // `endpoints`: without clients, of pools that are no longer planned. `known`: the list is complete.
  struct Retiring {
    std::vector<Endpoint> now;  // each once, and again after the pools were unknown
    bool later = false;         // others need a list from kubelet first
  };
  Retiring retire(const std::vector<Endpoint>& endpoints, bool known);

 private:
  using Name = std::pair<std::string, std::string>;  // pool, grant
  struct Entry {
    bool is_listed() const { return !given && !missing; }
    Held held;
    std::optional<MonoTime> given;    // not listed since
    std::optional<MonoTime> missing;  // when the first list without it was requested
    std::string pod_uid = {};         // when it was listed: a pod of the same name may be another one
  };
  struct Seen {
    bool listed = false;              // kubelet has named its grant to this agent
    std::optional<MonoTime> missing;  // since the first of the consecutive lists without it
    std::optional<MonoTime> ended;    // its pod
  };
  void learn(const Holder& holder, const plan::Plan& plan, const std::vector<Endpoint>& endpoints);
  void forget_claims(const std::vector<TenantGrant>& held, const std::vector<Endpoint>& endpoints);

  std::vector<Entry> entries_;
  bool behind_ = false;
  std::string unknown_ = "kubelet has not been asked yet";
  std::set<std::string> listed_;  // grants in kubelet's last list
  MonoTime asked_{};              // when that list was requested
  Shares shares_;
  std::map<std::string, MonoTime> named_;  // by grant, when it was last given or named
  std::set<std::string> unnamed_;          // recorded by the previous agent, and neither given nor named since
  std::map<Name, Seen> seen_;
  std::map<Name, MonoTime> unheld_;  // endpoints to retire: since which list
  std::set<Name> retired_;
};

}  // namespace tranche::grants
