#pragma once
// Schedules connections to the MPS control daemon, which serves one connection at a time and, while a client stalls, no
// other (docs/internals/evidence/mps-handshake.md). Its server serves clients in the order in which the daemon sends
// them. These rules bound the delay that tenants cause for each other: only one client of each grant is with the daemon
// at a time, and few in all, so that none waits longer for its server than the time that it has; among grants, the
// one that has waited longest since its last turn goes first.
//
// The daemon has one set of limits at a time for new clients, so clients that are with it together must have the same
// limits ("kind"). A client with different limits waits for those to finish; none may overtake it. Pure.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tranche::mps {

class RelayTurns {
 public:
  static constexpr std::size_t kMostWithDaemon = 2;

  // An identifier of the limits of a grant's next clients, equal for equal limits.
  using KindOf = std::function<std::string(const std::string& grant)>;
  explicit RelayTurns(KindOf kind_of) : kind_of_(std::move(kind_of)) {}

  void wait(std::uint64_t id, const std::string& grant);
  // The next client, which is with the daemon until leave(). Nothing while another client is being connected.
  std::optional<std::uint64_t> next();
  void connected(std::uint64_t id);       // it is introduced: a client of another grant may be connected
  void back(std::uint64_t id);            // there was no daemon: it is first in the queue again
  void leave(std::uint64_t id);           // it has left the queue or the daemon
  void forget(const std::string& grant);  // call when no client of it waits. One with the daemon counts for no grant
  bool others_wait() const { return turns_.size() > 1; }  // than one that is with the daemon

 private:
  struct Turn {
    std::uint64_t id = 0;
    std::optional<std::string> grant;  // absent: forgotten
    bool with_daemon = false;
    std::string kind = {};  // as it was at its turn
  };
  KindOf kind_of_;
  std::vector<Turn> turns_;       // those that wait are in the order of arrival
  std::uint64_t connecting_ = 0;  // 0 = none
  std::uint64_t last_turn_ = 0;
  std::map<std::string, std::uint64_t> last_turns_;  // of each grant, as a count of turns
};

}  // namespace tranche::mps
