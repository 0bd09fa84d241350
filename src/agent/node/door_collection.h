#pragma once
// When a grant's door may go: its pod is gone, by kubelet's word, and nothing of it lives. A door that is taken away
// too early cuts a running container off from its GPU for good, one that stays costs a directory, so in doubt it stays.
//
//   * Only what kubelet says counts (PodResources), and only answers: a question that failed is no look.
//   * A grant that kubelet listed goes after two looks in a row without it, at least kBetweenLooks apart.
//   * One that kubelet never listed to us (its pod went while we were away, or has not come yet) needs kNeverListed
//     between the two. So does any while kubelet lists nothing at all, as it does after its own start.
//   * A look that finds a living client begins the count anew; so does handing the grant out again.
//
// Pure.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace tranche::agent {

class DoorCollection {
 public:
  static constexpr Duration kBetweenLooks = std::chrono::seconds(60);
  static constexpr Duration kNeverListed = std::chrono::minutes(10);

  struct Door {
    std::string pool;
    std::string grant;
    bool has_clients = false;
    auto operator<=>(const Door&) const = default;
  };

  void handed_out(const std::string& pool, const std::string& grant);
  // An answer of kubelet's: `held` are the grants in it. The doors that may go now; asked for again at the next look
  // if they are still there.
  std::vector<Door> look(const std::vector<Door>& doors, const std::set<std::string>& held, MonoTime now);

 private:
  struct Seen {
    bool listed = false;              // kubelet has named it to us
    std::optional<MonoTime> missing;  // since the first look of this row without it
  };
  std::map<std::pair<std::string, std::string>, Seen> seen_;
};

}  // namespace tranche::agent
