#pragma once
// Servers whose control daemon has ended. They end by themselves then, as measured; this watches that they do, and
// kills the one that does not within a bound, so that no GPU memory stays held by a process that nobody can talk to.
// Loop thread.
#include <functional>
#include <map>
#include <memory>

#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/process/process.h"

namespace tranche::host {

class Orphans {
 public:
  Orphans(Loop& loop, Duration patience, std::function<void()> on_gone)
      : loop_(loop), patience_(patience), on_gone_(std::move(on_gone)) {}
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  void remember(pid_t server);  // while it is known to be one of ours
  void daemon_ended();          // those remembered are on their own from now on
  bool none_left() const { return watched_.empty(); }

 private:
  void ended(pid_t pid);
  Loop& loop_;
  Duration patience_;
  std::function<void()> on_gone_;
  std::map<pid_t, ProcessRef> known_;
  std::map<pid_t, std::unique_ptr<Process>> watched_;
  Timer timer_{loop_};
};

}  // namespace tranche::host
