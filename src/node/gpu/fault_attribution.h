#pragma once
// Faults on shared GPUs for events: which pod broke the GPU for all tenants, and which pods were affected. `tranche
// mps` reads process ids from the server's log. This class maps them to pods, and remembers the mapping for a while
// after the processes have ended, because the log names them only then. Until kubelet has reported the holder of a
// grant, its processes have none: the grant may have had another one before.
//
// MPS names a culprit, and is not always right: it was right 6 of 6 times while the neighbours were idle, but 2 of 3
// times it named a neighbour that computed at the same moment (docs/internals/evidence/mps-that-holds.md). It also
// names a survivor when the descriptors of a dead client are closed while a long kernel still runs. Messages therefore
// attribute the statement to MPS, and say who else may be the cause. Pure.
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "mps/protocol/pool_reports.h"
#include "node/grants/holders.h"

namespace tranche::node {

struct FaultParty {
  pid_t pid = 0;
  std::string grant;            // "" = not known
  std::string holder;           // "namespace/pod/container", "" = not known
  kube::ObjectRef object = {};  // the holder's, for events
  friend bool operator==(const FaultParty&, const FaultParty&) = default;
};

struct ReportedFault {
  std::int64_t at_ms = 0;  // since 1970
  std::string pool;
  std::string kind;  // "fatal", "exception", "unclean-exit"
  FaultParty culprit;
  std::vector<FaultParty> victims;
};

class FaultAttribution {
 public:
  static constexpr Duration kRemembered =
      std::chrono::minutes(10);  // how long a process is remembered after it was last seen
  static constexpr std::size_t kKept = 32;

  // The present processes of grants. A process keeps the first holder of its grant that is known while it is present.
  void processes(const std::map<pid_t, std::string>& grant_of_pid, const std::vector<Holder>& holders, MonoTime now);

  // Faults that were not reported before. Faults in the first reports happened before this process started: they are
  // listed, not reported.
  std::vector<ReportedFault> update(const mps::PoolReports& reports, const std::vector<Holder>& holders, MonoTime now);

  const std::deque<ReportedFault>& last() const { return last_; }  // oldest first

 private:
  using Key = std::tuple<std::string, std::int64_t, std::string, std::int64_t>;
  struct Known {
    FaultParty party;
    MonoTime seen{};
  };
  FaultParty party(pid_t pid) const;

  std::map<pid_t, Known> known_;
  std::set<Key> seen_;
  bool first_ = true;
  std::deque<ReportedFault> last_;
};

// One sentence for the culprit's and for a victim's event.
std::string culprit_text(const ReportedFault& fault);
std::string victim_text(const ReportedFault& fault);

}  // namespace tranche::node
