#pragma once
// A look at processes that want to be clients, before they are: one whose environment lifts its memory limit is not let
// in, because the driver would hold it to no limit at all (mps/limits/tenant_limits.h). That is for accidents: a tenant
// that means it can change its environment after the look, and the guard holds it then.
//
// Reading a process may block for as long as that process likes, so a thread of its own does it, with a deadline. While
// that thread is held up nobody is looked at and everybody comes in, as before there were looks. Loop thread only.
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
  using Done = std::function<void(const std::string& why_not)>;  // "" = it may come in
  explicit ClientLooks(host::Loop& loop, Duration patience = std::chrono::milliseconds(500));
  ClientLooks(const ClientLooks&) = delete;
  ClientLooks& operator=(const ClientLooks&) = delete;

  // `devices`: all that the process may see; empty = not known. Done comes once, perhaps at once.
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
  std::unique_ptr<host::Worker> worker_;  // from the first look on
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t next_ = 1;
  std::uint64_t late_ = 0;  // looks whose deadline has passed and which are not over
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what a look posts may run after our end
};

}  // namespace tranche::agent
