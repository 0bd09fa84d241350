#pragma once
// Tells when something in a directory changes (inotify): a created, deleted, renamed or rewritten entry, by name. Used
// for kubelet's socket and for configuration files (a mounted ConfigMap changes by renaming a link beside the file).
// Loop thread only.
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "os/loop/loop.h"

namespace tranche::host {

class DirWatch {
 public:
  // name = "" means that the directory itself is gone or moved, or that events were lost: look at everything again (and
  // open a new watch for a directory that came back). The kernel tells of a removed directory only when nobody holds it
  // open any more, a Dir of ours included. A name is told once per round, however often it changed. The callback may
  // drop the watch.
  static Result<std::unique_ptr<DirWatch>> open(Loop& loop, const std::string& directory,
                                                std::function<void(const std::string& name)> turn);
  virtual ~DirWatch() = default;
};

}  // namespace tranche::host
