#pragma once
// Follows the log file of one of our daemons line by line; the daemon may have been adopted. Truncates the file when it
// exceeds a bound, which is safe because the daemon appends. Loop thread.
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "mps/control/log_watch.h"
#include "os/files/files.h"
#include "os/loop/fd.h"
#include "os/process/line_reader.h"

namespace tranche::host {

class LogTail {
 public:
  // Starts at the current end of the file. on_line runs inside a callback of the loop.
  static Result<std::unique_ptr<LogTail>> open(std::shared_ptr<LogWatch> watch, const Dir& directory,
                                               const std::string& name,
                                               std::function<void(const std::string& line)> on_line,
                                               std::uint64_t bound = 16u << 20);
  ~LogTail();
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;
  int fd() const { return file_.get(); }  // for a daemon to write to
  void read();                            // delivers the lines that are in the file by now

 private:
  LogTail(std::shared_ptr<LogWatch> watch, Fd file, std::uint64_t at, std::uint64_t bound,
          std::function<void(const std::string&)> on_line);
  std::shared_ptr<LogWatch> watch_;
  LogWatch::Id id_ = 0;
  Fd file_;  // opened for reading and appending
  std::uint64_t at_;
  std::uint64_t bound_;
  std::function<void(const std::string&)> on_line_;
  LineReader lines_;
};

}  // namespace tranche::host
