#pragma once
// Reports that log files of daemons were written to: one inotify instance, and one wake-up, for all pools. It reads no
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

  // The callback runs as part of a turn and may add and remove files.
  Result<Id> add(const std::string& path, std::function<void()> on_written);
  void remove(Id id);
  // Reports next in 20 ms, of all files: for what daemons write of our own doings, which would wake us every time.
  void rest();

 private:
  struct File {
    int descriptor = -1;  // inotify's; the same for a file that was added twice
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
