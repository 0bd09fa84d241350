#pragma once
// Reports changes in a directory (inotify): created, deleted, renamed and rewritten entries, by name. Used for
// kubelet's socket and for configuration files (a mounted ConfigMap changes by renaming a link next to the file). Loop
// thread only.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"

namespace tranche::os {

class DirWatch {
 public:
  // name = "" means that the directory itself was removed or moved, or that events were lost: read everything again
  // (and open a new watch if the directory returns). The kernel reports a removed directory only after every descriptor
  // of it is closed, including a Dir of ours. A name is reported once per round, however often it changed. The callback
  // may destroy the watch.
  using Turn = std::function<void(const std::string& name)>;
  enum class Of { kEntriesAndWrites, kEntries };  // kEntries: not those that are rewritten, as devices always are
  static Result<std::unique_ptr<DirWatch>> open(Loop& loop, const std::string& directory, Turn turn,
                                                Of of = Of::kEntriesAndWrites);
  ~DirWatch();
  DirWatch(const DirWatch&) = delete;
  DirWatch& operator=(const DirWatch&) = delete;

 private:
  DirWatch(Loop& loop, Fd fd, Turn turn)
      : loop_(loop), fd_(std::move(fd)), turn_(std::make_shared<Turn>(std::move(turn))) {}
  void read_events();

  Loop& loop_;
  Fd fd_;
  std::shared_ptr<Turn> turn_;  // a callback that is running has it, too
  Loop::Id id_ = 0;
};

}  // namespace tranche::os
