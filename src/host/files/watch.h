#pragma once
// Tells when something in a directory changes (inotify): a created, deleted, renamed or rewritten entry, by name. Used
// for kubelet's socket and for configuration files (a mounted ConfigMap changes by renaming a link beside the file).
// Loop thread only.
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "host/loop/loop.h"

namespace tranche::host {

class DirWatch {
 public:
  // name = "" means that the directory itself is gone or events were lost: look at everything again.
  static Result<std::unique_ptr<DirWatch>> open(Loop& loop, const std::string& directory,
                                                std::function<void(const std::string& name)> turn);
  virtual ~DirWatch() = default;
};

}  // namespace tranche::host
