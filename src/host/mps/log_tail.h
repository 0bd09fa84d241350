#pragma once
// Follows the file that a daemon of ours writes its log to, line by line, also one that was adopted. Keeps the file
// small: it is emptied when it passes a bound, which is safe because the daemon appends. Loop thread.
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "host/files/files.h"
#include "host/loop/fd.h"
#include "host/loop/loop.h"
#include "host/loop/timer.h"
#include "host/process/line_reader.h"

namespace tranche::host {

class LogTail {
 public:
  // Starts at the present end. on_line runs as part of a turn.
  static Result<std::unique_ptr<LogTail>> open(Loop& loop, const Dir& directory, const std::string& name,
                                               std::function<void(const std::string& line)> on_line,
                                               std::uint64_t bound = 16u << 20);
  ~LogTail();
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;
  int fd() const { return file_.get(); }  // for a daemon to write to
  void read();                            // what is there by now
  // Looks again in 20 ms and not before: for what the daemon writes of our own doings, which would wake us every time.
  void rest();

 private:
  LogTail(Loop& loop, Fd file, std::uint64_t at, std::uint64_t bound, std::function<void(const std::string&)> on_line);
  Status watch(const std::string& path);
  void go_on();
  void written();
  Loop& loop_;
  Fd file_;  // reading and appending
  std::uint64_t at_;
  std::uint64_t bound_;
  std::function<void(const std::string&)> on_line_;
  LineReader lines_;
  // Of writing: the daemon holds the file open as long as it lives, so that a watch for finished files would tell
  // nothing before its end.
  Fd inotify_;
  Loop::Id watch_ = 0;
  Timer resting_{loop_};
};

}  // namespace tranche::host
