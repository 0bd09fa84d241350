#pragma once
// Inspects a process before it becomes a client. A process whose environment lifts its memory limit is refused, because
// the driver would enforce no limit at all for it (mps/limits/tenant_limits.h). This catches mistakes, not attacks: a
// tenant can change the environment after the look, and then the guard enforces the limit.
//
// Reading a process's memory may block for as long as that process likes, so a thread of its own does it, with a
// deadline. While that thread is blocked, no process is inspected and every process is admitted. Loop thread only.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/worker/worker.h"

namespace tranche::agent {

class ClientLooks {
 public:
  using Done = std::function<void(const std::string& why_not)>;  // "" = the process may connect
  explicit ClientLooks(host::Loop& loop, Duration patience = std::chrono::milliseconds(500));
  ClientLooks(const ClientLooks&) = delete;
  ClientLooks& operator=(const ClientLooks&) = delete;

  // `devices`: all devices that the process may see; empty = not known. `done` runs once, perhaps inside look().
  void look(int pid, std::vector<std::string> devices, Done done);

 private:
  struct Waiting {
    Waiting(host::Loop& loop, Done asked) : done(std::move(asked)), timer(loop) {}
    Done done;
    host::Timer timer;
  };
  void answered(std::uint64_t id, const std::string& why_not);
  void late(std::uint64_t id, int pid);

  host::Loop& loop_;
  Duration patience_;
  std::unique_ptr<host::Worker> worker_;  // created by the first look
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t next_ = 1;
  std::uint64_t late_ = 0;                                      // looks that are past their deadline and still running
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // a result may be posted after our end
};

}  // namespace tranche::agent
