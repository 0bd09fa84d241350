#pragma once
// Draining a container: from the moment when somebody says that it is about to be stopped, none of its processes is let
// in any more, and those that are in are ended through MPS, which finishes their work first, so that the signal that
// follows hurts no neighbour (facts: a client that dies with work in flight takes its neighbours along). What is closed
// is the container, not the grant: a container that is started again under the same grant comes in at once.
//
// A container is known by its mount namespace ("mnt:[4026531840]"). Which drains run, who waits for them, and whose
// door is closed; doing it is doors.h's. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/mps/requests.h"
#include "base/time.h"

namespace tranche::agent {

class Drains {
 public:
  using Waiter = std::uint64_t;

  // Somebody asks for a drain of these containers (none: of nobody in particular; then only clients are ended).
  // true: it has to be begun now. false: one runs, and its end is this one's end too.
  bool begin(const DoorName& door, const std::set<std::string>& containers, Waiter waiter, MonoTime now);
  // The drain that ran is over. Who waited, and since when it ran.
  struct Ended {
    std::vector<Waiter> waiters;
    MonoTime since{};
  };
  Ended end(const DoorName& door);
  bool running(const DoorName& door) const { return running_.contains(door); }

  // Whether a process of this container may come in.
  bool is_closed(const DoorName& door, const std::string& container) const;
  std::set<std::string> closed(const DoorName& door) const;
  // Its init has ended: nothing of it can come any more.
  void container_ended(const DoorName& door, const std::string& container);
  void forget(const DoorName& door);  // the door is removed

 private:
  struct Running {
    std::vector<Waiter> waiters;
    MonoTime since{};
  };
  std::map<DoorName, Running> running_;
  std::map<DoorName, std::set<std::string>> closed_;
};

}  // namespace tranche::agent
