#pragma once
// When a grant's endpoint may go, as reported by kubelet and the API server: its pod is gone. Its clients are ended
// then. An endpoint that is taken away too early cuts a running container off from its GPU for good, so in doubt it
// stays.
//
//   * Only kubelet's answers count (PodResources): a question that failed is no look.
//   * A grant whose pod has ended, as the API server reports, goes with the first answer without it.
//   * A grant that kubelet listed goes after two looks in a row without it, at least kBetweenLooks apart.
//   * One that kubelet never listed to us (its pod went while we were away, or has not come yet) needs kNeverListed
//     between the two. So does any while kubelet lists nothing at all, as it does after its own start.
//   * With a living client it stays while kubelet lists nothing, and where kubelet never listed it: the container may
//   run.
//   * Handing the grant out again begins the count anew.
//
// Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace tranche::agent {

class EndpointCollection {
 public:
  static constexpr Duration kBetweenLooks = std::chrono::seconds(60);
  static constexpr Duration kNeverListed = std::chrono::minutes(10);
  static constexpr Duration kEndedFor = std::chrono::minutes(1);  // a pod's end is believed, while kubelet lists it

  struct Endpoint {
    std::string pool;
    std::string grant;
    bool has_clients = false;
    std::uint64_t made = 0;  // which endpoint of the grant (PoolReports)
    auto operator<=>(const Endpoint&) const = default;
  };

  void handed_out(const std::string& pool, const std::string& grant);
  // The pod that holds it is over or gone, as reported by the API server.
  void pod_ended(const std::string& pool, const std::string& grant, MonoTime now);
  // An answer of kubelet's: `held` are the grants in it. The endpoints that may go now; asked for again at the next
  // look if they are still there.
  std::vector<Endpoint> look(const std::vector<Endpoint>& endpoints, const std::set<std::string>& held, MonoTime now);

 private:
  struct Seen {
    bool listed = false;              // kubelet has named it to us
    std::optional<MonoTime> missing;  // since the first look of this row without it
    std::optional<MonoTime> ended;    // its pod
  };
  std::map<std::pair<std::string, std::string>, Seen> seen_;
};

}  // namespace tranche::agent
