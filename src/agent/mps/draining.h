#pragma once
// Carries drains out (drains.h decides): watches the containers that are closed until their init has ended, has their
// clients ended through MPS, and answers whoever waits, at the latest after the deadline. Loop thread only.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/mps/drains.h"
#include "host/loop/loop.h"
#include "host/process/process.h"
#include "mps/terminated.h"

namespace tranche::agent {

using Terminated = std::vector<mps::Terminated>;
// Ends clients of a pool through MPS: one outcome for each, at the latest after the deadline.
using Terminate = std::function<void(const std::string& pool, std::vector<int> pids, Duration deadline,
                                     std::function<void(const Terminated&)> done)>;

class Draining {
 public:
  struct World {
    std::function<std::vector<int>(const DoorName&)> clients;  // that are in by this door
    Terminate terminate;
    std::function<void()> on_change;  // a container was closed, or is open again
  };
  using Reply = std::function<void(const std::string& json)>;

  Draining(host::Loop& loop, World world) : loop_(loop), world_(std::move(world)) {}
  ~Draining();
  Draining(const Draining&) = delete;
  Draining& operator=(const Draining&) = delete;

  // `caller`: a process of the container that is about to be stopped; 0: all containers that have clients here.
  void drain(const DoorName& door, int caller, const std::string& reason, Duration deadline, Reply reply);
  // Why this process may not come in; "" when no drain keeps it out.
  std::string refuses(const DoorName& door, int pid) const;
  std::set<std::string> closed(const DoorName& door) const { return drains_.closed(door); }
  void forget(const DoorName& door);

 private:
  std::set<std::string> containers_of(const DoorName& door, int caller) const;
  void watch(const DoorName& door, const std::string& container);
  void finish(const DoorName& door, std::uint64_t run, const Terminated& outcomes);

  host::Loop& loop_;
  World world_;
  Drains drains_;
  std::uint64_t next_ = 1;
  std::map<Drains::Waiter, Reply> waiters_;
  struct Run {
    std::uint64_t number = 0;
    host::Loop::Id timer = 0;
  };
  std::map<DoorName, Run> runs_;
  std::map<std::pair<DoorName, std::string>, std::unique_ptr<host::Process>> inits_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // terminate() may answer after our end
};

}  // namespace tranche::agent
