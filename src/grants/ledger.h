#pragma once
// The ledger of this node's grants: which slots are held, what each grant is limited to, and when a grant's
// endpoint may go. It goes by our answers to kubelet (Allocate), kubelet's lists (PodResources),
// prepared claims, the API server's reports of ended pods, and what the agent before this one wrote down. It decides;
// asking and acting is the agent's. One thread. Pure: `now` and `asked` are passed in and never go back.
//
// In doubt a grant is held: kubelet lists it a little after our answer, and for a moment after its own start it lists
// nothing. Slots that are free too early are given twice, and an endpoint that goes too early cuts a running container
// off from its GPU for good.
//
//   * Slots are free when two answers in a row do not name them, `confirm` apart, or `confirm_none` where kubelet names
//     no container at all.
//   * A grant is limited to what it was given with. The limits of a grant that is not known any more are those of its
//     endpoint in `tranche mps`, otherwise those of the plan. The record of a claim always takes precedence.
//   * An endpoint goes with the first answer without its grant when the API server reports its pod's end, otherwise
//     after two answers without it, `endpoint_confirm` apart. A grant that kubelet never listed to us needs
//     `endpoint_unlisted` between the two, and so does any while kubelet lists nothing. With a living client it stays
//     in these two cases. Its clients are ended when it goes.
//   * An endpoint without clients of a pool that is not planned any more keeps the pool from ending. It goes as soon as
//     its slots are free.
#include <cstdint>
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
  Duration listed_within = std::chrono::seconds(5);  // kubelet lists a grant that comes to something
  Duration confirm = std::chrono::seconds(2);
  Duration confirm_none = std::chrono::seconds(10);
  Duration named_within = std::chrono::seconds(10);  // for this long kubelet is asked whose a grant is
  Duration endpoint_confirm = std::chrono::minutes(1);
  Duration endpoint_unlisted = std::chrono::minutes(10);
  Duration pod_end_counts = std::chrono::minutes(1);  // while kubelet lists the pod still
  Duration forget = std::chrono::minutes(10);         // limits of a grant that kubelet does not name
};
inline constexpr Patience kPatience{};

// What one container holds of one resource.
struct Held {
  std::string resource;
  std::vector<std::string> slots;  // sorted
  friend bool operator==(const Held&, const Held&) = default;
};

// A grant's endpoint, as its pool reports it.
struct Endpoint {
  std::string pool;
  std::string grant;
  bool has_clients = false;
  std::uint64_t made = 0;                    // which endpoint of the grant
  std::vector<allocate::GrantLimit> limits;  // of clients; empty: it has none
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// Prefix of the name of a claim that replaces a pod's: a pod's name cannot have a colon.
inline constexpr std::string_view kClaimAsPod = "claim:";

// A container, or a request of a claim, and what it holds.
struct Holder {
  std::string pod_namespace;
  std::string pod;  // kClaimAsPod and the name of a claim that any pod may use
  std::string container;
  std::string resource;
  std::vector<std::string> slots;
  std::vector<allocate::GrantLimit> devices;
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

  // kubelet gives a slot to one container at a time: what is known of its former holder is over, and the grant has no
  // tenant until kubelet names it.
  void given(const allocate::Grant& grant, MonoTime now);
  // kubelet's answer to a question asked at `asked`; it may name other vendors' devices.
  void listed(const std::vector<Held>& all, MonoTime asked);
  void not_answered(std::string why) { unknown_ = std::move(why); }
  // All holders that are known by name. `endpoints`: absent while `tranche mps` does not answer; it is asked first for
  // limits that are not known. `complete`: kubelet has answered, so that others may be forgotten. A claim is forgotten
  // once it is not prepared and has no endpoint, whether kubelet answers or not.
  void named(const std::vector<Holder>& holders, const plan::Plan& plan,
             const std::optional<std::vector<Endpoint>>& endpoints, bool complete, MonoTime now);
  // As reported by the API server.
  void pod_ended(const std::string& pool, const std::string& grant, MonoTime now);

  // Why it is not known what is held; "" = it is known.
  const std::string& unknown() const { return unknown_; }
  std::vector<Held> held() const;
  // Was held, and is free by now beyond doubt.
  const std::vector<Held>& freed() const { return freed_; }
  // Something may be free: kubelet's next answer decides.
  bool in_doubt() const;

  const Shares& shares() const { return shares_; }  // also to be written down
  // A grant was given a moment ago, and kubelet has not named its container; or the agent before this one wrote a grant
  // down, and nothing has named it to this one.
  bool awaits_name(MonoTime now) const;

  // After an answer of kubelet's: those that may go, again at each answer for as long as they are there.
  std::vector<Endpoint> over(const std::vector<Endpoint>& endpoints, MonoTime now);
  // `endpoints`: those without clients of pools that are not planned any more. `known`: these are all.
  struct Retiring {
    std::vector<Endpoint> now;  // each once, and again after the pools were not known
    bool later = false;         // for others an answer of kubelet's is wanted
  };
  Retiring retire(const std::vector<Endpoint>& endpoints, bool known);

 private:
  using Name = std::pair<std::string, std::string>;  // pool, grant
  struct Entry {
    Held held;
    std::optional<MonoTime> given;    // and not listed since
    std::optional<MonoTime> missing;  // asked first, and not listed
  };
  struct Seen {
    bool listed = false;              // kubelet has named its grant to us
    std::optional<MonoTime> missing;  // since the first answer of this row without it
    std::optional<MonoTime> ended;    // its pod
  };
  void learn(const Holder& holder, const plan::Plan& plan, const std::vector<Endpoint>& endpoints);
  void forget_claims(const std::vector<TenantGrant>& held, const std::vector<Endpoint>& endpoints);

  std::vector<Entry> entries_;
  std::vector<Held> freed_;  // no two of them share a slot, so they are no more than slots
  std::string unknown_ = "kubelet has not been asked yet";
  std::set<std::string> listed_;  // grants in kubelet's last answer
  MonoTime asked_{};              // when it was asked for
  Shares shares_;
  std::map<std::string, MonoTime> named_;  // by grant, when it was last given or named
  std::set<std::string> unnamed_;          // written down by the agent before this one, and neither since
  std::map<Name, Seen> seen_;
  std::map<Name, MonoTime> unheld_;  // to be retired: by which answer first
  std::set<Name> retired_;
};

}  // namespace tranche::grants
