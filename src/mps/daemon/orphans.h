#pragma once
// Watches the MPS servers whose control daemon has ended. Such servers exit by themselves (measured). This class kills
// a server that does not exit within `patience`, so that no GPU memory stays held by a process that accepts no
// commands. Loop thread.
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

  void remember(pid_t server);  // while the daemon still reports it as its server
  void daemon_ended();          // the remembered servers have to exit from now on
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
