#pragma once
// Faults on shared GPUs for events: which pod broke the GPU for all tenants, and which pods were affected. `tranche
// mps` reads process ids from the server's log. This class maps them to pods, and remembers the mapping for a while
// after the processes have ended, because the log names them only then.
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

namespace tranche::node {

struct FaultParty {
  std::int64_t pid = 0;
  std::string grant;   // "" = not known
  std::string holder;  // "namespace/pod/container", "" = not known
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
  static constexpr Duration kPatience =
      std::chrono::seconds(3);  // for kubelet to report the holder of a grant that was reallocated

  // The present processes of grants, and the holder of each grant.
  void processes(const std::map<pid_t, std::string>& grant_of_pid, MonoTime now);
  void holders(const std::map<std::string, std::string>& holder_of_grant);
  // A grant was allocated: its previous holder no longer has it, and kubelet reports the new one only later.
  void given(const std::string& grant);

  // Faults that were not reported before. Faults in the first reports happened before this process started: they are
  // listed, not reported. A fault whose processes belong to a grant without a known holder waits for holders(), up to
  // kPatience.
  std::vector<ReportedFault> update(const mps::PoolReports& reports, MonoTime now);
  // Of the waiting faults, those that can be reported now.
  std::vector<ReportedFault> settled(MonoTime now);
  bool waiting() const { return !waiting_.empty(); }

  const std::deque<ReportedFault>& last() const { return last_; }  // oldest first

 private:
  using Key = std::tuple<std::string, std::int64_t, std::string, std::int64_t>;
  struct Known {
    std::string grant;
    MonoTime seen{};
  };
  struct Waiting {
    std::string pool;
    mps::PoolFault fault;
    MonoTime since{};
    bool ours = true;  // false: happened before this process started
  };
  FaultParty party(std::int64_t pid) const;
  bool awaits(std::int64_t pid) const;

  std::map<std::int64_t, Known> known_;
  std::map<std::string, std::string> holder_of_;
  std::set<std::string> awaited_;  // grants allocated since kubelet last reported their holder
  std::vector<Waiting> waiting_;
  std::set<Key> seen_;
  bool first_ = true;
  std::deque<ReportedFault> last_;
};

// One sentence for the culprit's and for a victim's event.
std::string culprit_text(const ReportedFault& fault);
std::string victim_text(const ReportedFault& fault);

}  // namespace tranche::node
