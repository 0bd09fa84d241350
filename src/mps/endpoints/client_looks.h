#pragma once
// Inspects a process before it becomes a client. A process that started with an environment that lifts its memory limit
// is refused, because the driver would enforce no limit at all for it (mps/limits/tenant_limits.h). This catches
// mistakes, not attacks: for a process that changes its environment after its start, the guard enforces the limit.
//
// The kernel reads /proc/<pid>/environ from the process's memory, and may wait for as long as that process likes. So a
// thread of its own does it, with a deadline. While that thread is blocked, no process is inspected and every process
// is admitted. Loop thread only.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mps/endpoints/log_pace.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/worker/worker.h"

namespace tranche::mps {

class ClientLooks {
 public:
  using Done = std::function<void(const std::string& why_not)>;  // "" = the process may connect
  explicit ClientLooks(os::Loop& loop, Duration patience = std::chrono::milliseconds(500));
  ~ClientLooks();  // waits for no process: a look that has begun is left behind
  ClientLooks(const ClientLooks&) = delete;
  ClientLooks& operator=(const ClientLooks&) = delete;

  // `devices`: all devices that the process may see; empty = not known. `done` runs once, perhaps inside look().
  void look(int pid, std::vector<std::string> devices, Done done);

 private:
  struct Waiting {
    Waiting(os::Loop& loop, Done asked) : done(std::move(asked)), timer(loop) {}
    Done done;
    os::Timer timer;
    std::shared_ptr<std::atomic<bool>> awaited = std::make_shared<std::atomic<bool>>(true);
  };
  void answered(std::uint64_t id, const std::string& why_not);
  void late(std::uint64_t id, int pid);

  os::Loop& loop_;
  Duration patience_;
  std::unique_ptr<os::Worker> worker_ = os::Worker::start();  // early: a pid limit may be reached later
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t next_ = 1;
  LogPace pace_;
  std::uint64_t late_ = 0;  // looks that are past their deadline and still running
  // Where results go: a look may outlive us and the loop.
  struct Results {
    std::mutex mutex;
    os::Loop* loop = nullptr;  // null: they are not awaited
  };
  std::shared_ptr<Results> results_ = std::make_shared<Results>();
};

}  // namespace tranche::mps
