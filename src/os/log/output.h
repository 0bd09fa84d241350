#pragma once
// Private to os/log: writes whole lines to a file descriptor whose reader may not read. No call waits, and the file
// description, which other processes share, keeps its flags: a pipe and a terminal are opened once more for this
// process, a socket is written with a non-blocking send, and everything else (files, /dev/null) never waits for a
// reader. Not thread-safe: its owner has a lock.
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "os/loop/fd.h"

namespace tranche::log {

class OutputQueue {
 public:
  static constexpr std::size_t kMost = 256 << 10;  // limit of queued bytes; lines beyond it are dropped
  static constexpr Duration kPatienceAtExit = std::chrono::seconds(1);

  explicit OutputQueue(int fd) : fd_(fd) {}  // fd stays the caller's and may later be another file (dup2)
  ~OutputQueue() { drain(); }
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;

  void write(std::string_view line);
  void flush();
  void drain();  // waits for the reader, for at most kPatienceAtExit
  bool waiting() const { return !waiting_.empty(); }
  std::uint64_t dropped() const { return dropped_; }  // lines

 private:
  enum class Kind { kFile, kSocket, kOwn, kShared };  // kShared: a pipe that cannot be opened again

  void look();
  ssize_t put(std::string_view text);

  int fd_;
  host::Fd own_;
  Kind kind_ = Kind::kFile;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool known_ = false;
  std::string waiting_;
  std::uint64_t dropped_ = 0;
};

}  // namespace tranche::log
