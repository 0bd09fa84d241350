#pragma once
// What is being done to a GPU's MIG layout, on disk before each driver call: a program that is killed finds where it
// was, and an operator sees what it made and did not finish. One file for each GPU, `mig-<GPU UUID>.json`, replaced as
// a whole; it is gone once the change is done. It is not synced to the disk: instances do not survive a crash of the
// kernel either, and what was written survives a killed program. One thread.
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mig/layout.h"
#include "os/files/files.h"

namespace tranche::host {

struct MigChange {
  std::string gpu;     // UUID
  std::string config;  // the name of what was asked for
  std::string boot;    // the kernel's boot id: instances do not survive a reboot
  mig::Layout before;
  mig::Layout target;
  bool undoing = false;  // on its way back to `before`
  bool waits_for_reset = false;
  std::string step;  // the newest that was begun, "" = none
  bool step_returned = false;
  std::vector<std::string> made;  // since the beginning, by this change
};

class MigChangeFiles {
 public:
  // `folder` is made when it is not there.
  static Result<MigChangeFiles> open(const std::string& folder);

  Status write(const MigChange& change) const;
  Status forget(const std::string& gpu) const;
  // What was not finished. A file that cannot be read is renamed, with a sentence in `lost`.
  std::vector<MigChange> unfinished(std::vector<std::string>& lost) const;

 private:
  explicit MigChangeFiles(Dir folder) : folder_(std::move(folder)) {}
  Dir folder_;
};

}  // namespace tranche::host
