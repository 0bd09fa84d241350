#pragma once
// Reports that a daemon's log file was written to. All pools share one inotify instance and one wake-up. It reads no
// file. Loop thread.
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"

namespace tranche::host {

class LogWatch : public std::enable_shared_from_this<LogWatch> {
 public:
  using Id = int;
  static Result<std::shared_ptr<LogWatch>> open(Loop& loop);
  ~LogWatch();
  LogWatch(const LogWatch&) = delete;
  LogWatch& operator=(const LogWatch&) = delete;

  // on_written runs inside a callback of the loop and may add and remove files.
  Result<Id> add(const std::string& path, std::function<void()> on_written);
  void remove(Id id);
  // Delays the next report, for all files, by 20 ms: our own commands make the daemons write, and each line would wake
  // this process.
  void rest();

 private:
  struct File {
    int descriptor = -1;  // inotify's; shared by entries for the same file
    std::function<void()> on_written;
  };
  LogWatch(Loop& loop, Fd inotify) : loop_(loop), inotify_(std::move(inotify)) {}
  void go_on();
  void read();

  Loop& loop_;
  Fd inotify_;
  Loop::Id watch_ = 0;
  Timer resting_{loop_};
  std::map<Id, File> files_;
  Id last_ = 0;
};

}  // namespace tranche::host
