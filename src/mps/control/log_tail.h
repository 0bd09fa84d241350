#pragma once
// Follows the log file of one of our daemons line by line; the daemon may have been adopted. Truncates the file when it
// exceeds a bound, which is safe because the daemon appends. Loop thread.
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/result.h"
#include "base/text.h"
#include "os/files/files.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"

namespace tranche::mps {

class LogTail;

// Has all tails read when a daemon's log file was written to. All pools share one inotify instance and one wake-up.
// Loop thread.
class LogWatch : public std::enable_shared_from_this<LogWatch> {
 public:
  static Result<std::shared_ptr<LogWatch>> open(os::Loop& loop);
  ~LogWatch();
  LogWatch(const LogWatch&) = delete;
  LogWatch& operator=(const LogWatch&) = delete;

  // Delays the next report, for all files, by 20 ms: our own commands make the daemons write, and each line would wake
  // this process.
  void rest();

 private:
  friend class LogTail;
  LogWatch(os::Loop& loop, os::Fd inotify) : loop_(loop), inotify_(std::move(inotify)) {}
  void go_on();
  void read();

  os::Loop& loop_;
  os::Fd inotify_;
  os::Loop::Id watch_ = 0;
  os::Timer resting_{loop_};
  std::set<LogTail*> tails_;
};

class LogTail {
 public:
  // Starts at the current end of the file. on_line runs inside a callback of the loop.
  static Result<std::unique_ptr<LogTail>> open(std::shared_ptr<LogWatch> watch, const os::Dir& directory,
                                               const std::string& name,
                                               std::function<void(const std::string& line)> on_line,
                                               std::uint64_t bound = 16u << 20);
  ~LogTail();
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;
  int fd() const { return file_.get(); }  // for a daemon to write to
  void read();                            // delivers the lines that are in the file by now

 private:
  LogTail(std::shared_ptr<LogWatch> watch, os::Fd file, std::uint64_t at, std::uint64_t bound,
          std::function<void(const std::string&)> on_line);
  friend class LogWatch;
  std::shared_ptr<LogWatch> watch_;
  os::Fd file_;  // opened for reading and appending
  std::uint64_t at_;
  std::uint64_t bound_;
  std::function<void(const std::string&)> on_line_;
  LineReader lines_;
};

}  // namespace tranche::mps
