#pragma once
// Faults on shared GPUs as people want them told: whose pod broke the GPU for everybody, and whose were hit. `tranche
// mps` reads process ids from the server's log; which pod they were of is known here, also a while after they have
// ended, because that is when the log names them.
//
// MPS names the culprit, and is not always right: 6 times of 6 while the neighbours were idle, but 2 times of 3 it
// named a neighbour that computed at the same moment (docs/internals/evidence/mps-that-holds.md). Messages therefore
// report it as a statement of MPS. Pure.
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "mps/protocol/pools.h"

namespace tranche::agent {

struct FaultParty {
  std::int64_t pid = 0;
  std::string grant;   // "" = not known
  std::string holder;  // "namespace/pod/container", "" = not known
  friend bool operator==(const FaultParty&, const FaultParty&) = default;
};

struct ToldFault {
  std::int64_t at_ms = 0;  // since 1970
  std::string pool;
  std::string kind;  // "fatal", "exception", "unclean-exit"
  FaultParty culprit;
  std::vector<FaultParty> victims;
  friend bool operator==(const ToldFault&, const ToldFault&) = default;
};

class FaultBook {
 public:
  static constexpr Duration kRemembered = std::chrono::minutes(10);  // who a process was, after it was last seen
  static constexpr std::size_t kKept = 32;
  static constexpr Duration kPatience = std::chrono::seconds(3);  // for kubelet to say who holds a grant given anew

  // Processes of grants, as they are now; and who holds a grant.
  void processes(const std::map<std::uint32_t, std::string>& grant_of_pid, MonoTime now);
  void holders(const std::map<std::string, std::string>& holder_of_grant);
  // A grant was handed out: whoever had the same slots before has them no longer, and kubelet says only later who has.
  void given(const std::string& grant);

  // Faults that were not told before. Those of the first reports date from before our time: shown, not told. One whose
  // processes are of a grant that nobody is known to hold yet waits for holders(), kPatience at most.
  std::vector<ToldFault> update(const PoolReports& reports, MonoTime now);
  // Of those that waited, what can be told by now.
  std::vector<ToldFault> settled(MonoTime now);
  bool waiting() const { return !waiting_.empty(); }

  const std::deque<ToldFault>& last() const { return last_; }  // oldest first

 private:
  using Key = std::tuple<std::string, std::int64_t, std::string, std::int64_t>;
  struct Known {
    std::string grant;
    MonoTime seen{};
  };
  struct Waiting {
    std::string pool;
    PoolFault fault;
    MonoTime since{};
    bool ours = true;  // false: from before our time
  };
  FaultParty party(std::int64_t pid) const;
  bool awaits(std::int64_t pid) const;

  std::map<std::int64_t, Known> known_;
  std::map<std::string, std::string> holder_of_;
  std::set<std::string> awaited_;  // grants given since kubelet last named their holder
  std::vector<Waiting> waiting_;
  std::set<Key> seen_;
  bool first_ = true;
  std::deque<ToldFault> last_;
};

// One sentence for the culprit's and for a victim's event.
std::string culprit_words(const ToldFault& fault);
std::string victim_words(const ToldFault& fault);

}  // namespace tranche::agent
