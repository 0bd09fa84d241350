#pragma once
// A lock on a file that one process of the node has at a time. It ends with the process, also if that is killed. As of
// fcntl(2), it is the process's and not the descriptor's: a second FileLock of the same file in one process is not
// refused, and its end frees the first. Closing the file, also by a process that ends, is reported to watches of its
// folder (os/files/watch.h). No thread affinity.
#include <string>

#include "base/result.h"
#include "os/loop/fd.h"

namespace tranche::os {

class FileLock {
 public:
  // Makes the file, mode 0600, if it is absent. Follows no link.
  static Result<FileLock> open(const std::string& path);

  Result<bool> take();  // false: a different process has it
  void free();          // the file stays open: no watch sees it
  bool taken() const { return taken_; }
  const Fd& file() const { return file_; }

 private:
  FileLock(Fd file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  Fd file_;
  std::string path_;
  bool taken_ = false;
};

}  // namespace tranche::os
