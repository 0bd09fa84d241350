#pragma once
// Private to os/process: starts a Command and returns the child and the ends of its pipes.
#include <sys/types.h>

#include "base/result.h"
#include "os/loop/fd.h"
#include "os/process/process.h"

namespace tranche::os {

struct Spawned {
  pid_t pid = 0;
  Fd pidfd;
  Fd output;  // reading end of stdout and stderr, non-blocking; none if the command has an output
};
Result<Spawned> spawn(const Command& command);

}  // namespace tranche::os
