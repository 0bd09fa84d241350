#pragma once
// Whose turn it is at the MPS control daemon, which serves one connection at a time and, while a client stalls, nobody
// (docs/internals/evidence/mps-handshake.md). Two rules keep one tenant from costing the others more than moments: of
// each grant only one client at a time is with the daemon, and a grant whose client stalled waits before its next.
// Among grants the one that waited longest since its last turn goes first.
//
// The daemon has one set of limits at a time for clients to come, so those who are with it together must be of one
// kind: worth the same. Whoever is due and of another kind waits until they have left, and nobody goes before it. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace tranche::mps {

class RelayTurns {
 public:
  static constexpr Duration kFirstPenalty = std::chrono::seconds(2);
  static constexpr Duration kLongestPenalty = std::chrono::minutes(1);

  void wait(std::uint64_t id, const std::string& grant);
  // What its clients are worth from now on, as a word that is equal for equal limits; "" until it is said.
  void set_kind(const std::string& grant, const std::string& kind);
  // The next one, which then is with the daemon until leave(); nothing while another is still being connected.
  std::optional<std::uint64_t> next(MonoTime now);
  void connected(std::uint64_t id);  // it was introduced: another grant's may be connected
  void back(std::uint64_t id);       // there was no daemon: first in the queue again
  // It is let in; the limits are not to be changed yet, but the grant's next client may come. Ends with leave().
  void settle(std::uint64_t id);
  // It has left the queue, or the daemon. With `stalled` its grant has to wait.
  void leave(std::uint64_t id, bool stalled, MonoTime now);
  void went_well(const std::string& grant);  // a client was let in: no penalty any more
  void forget(const std::string& grant);     // when nobody of it waits or is with the daemon
  // When next() may have another answer without anything happening.
  std::optional<MonoTime> wake_at(MonoTime now) const;
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Turn {
    std::uint64_t id = 0;
    std::string grant;
  };
  struct WithDaemon {
    std::string grant;
    std::string kind;  // as it was when its turn came
    bool settling = false;
  };
  struct Standing {
    std::string kind;
    bool with_daemon = false;
    std::uint64_t last_turn = 0;  // counts turns
    MonoTime not_before{};
    Duration penalty{};
  };
  bool may_go(const Turn& turn, MonoTime now) const;

  std::vector<Turn> waiting_;  // in the order of arrival
  std::map<std::uint64_t, WithDaemon> with_daemon_;
  std::uint64_t connecting_ = 0;  // 0 = nobody
  std::uint64_t turns_ = 0;
  std::map<std::string, Standing> standing_;
};

}  // namespace tranche::mps
