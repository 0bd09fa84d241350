#pragma once
// Starts a program whose standard descriptors are given: what host/process does not offer and MPS needs, text on stdin
// for a question, and a log file that outlives us for a daemon. The program gets nothing else of ours. Watching it, and
// signalling it, is host/process's adoption: the returned Process is our child and tells its exit status. Loop thread.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/loop/fd.h"
#include "host/loop/loop.h"
#include "host/process/process.h"

namespace tranche::host {

struct Launch {
  std::vector<std::string> argv = {};           // argv[0] is the path to execute
  std::map<std::string, std::string> env = {};  // the whole environment
  int input = -1;                               // becomes 0
  int output = -1;                              // becomes 1 and 2
  int kept = -1;                                // becomes 3, if given
};

Result<std::unique_ptr<Process>> launch(Loop& loop, const Launch& what, std::function<void(ExitNote)> on_exit);

// A file in memory that holds `content` and stands at its beginning.
Result<Fd> memory_file(const char* name, const std::string& content);

}  // namespace tranche::host
