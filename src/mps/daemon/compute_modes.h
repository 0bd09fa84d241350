#pragma once
// Compute mode of the GPUs that MPS shares: EXCLUSIVE_PROCESS while a daemon serves them, so that nothing runs beside
// MPS when the daemon is gone; before that, whatever it was. What it was is written to <mps-root>/compute-mode.json
// before it is changed, so that it is given back also after we were killed. A GPU under policy "leave" is never
// touched.
//
// The driver is asked through a function that is given, since its calls run on a thread of their own. Loop thread.
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/inventory/inventory.h"
#include "os/files/files.h"

namespace tranche::host {

using ModeJournal = std::map<std::string, inventory::ComputeMode>;  // GPU UUID → the mode it had before
Result<ModeJournal> parse_mode_journal(std::string_view json);      // pure; fuzzed
std::string render_mode_journal(const ModeJournal& journal);

class ComputeModes {
 public:
  using Done = std::function<void(Status)>;
  using Setter = std::function<void(const std::string& uuid, inventory::ComputeMode mode, Done done)>;

  // A journal that cannot be used is put aside, and the modes that the driver has now count as those from before: a GPU
  // without a mode to give back must not keep all others from being shared.
  static Result<ComputeModes> open(const std::string& mps_root, Setter set);
  const std::string& lost() const { return lost_; }  // why and whereto it was put aside; "" = it was not

  // A scan found it so. What is set after a scan counts until the next one: both are answered by the driver's thread in
  // the order in which they were asked. A GPU that was never seen counts as DEFAULT.
  void seen(const std::string& uuid, inventory::ComputeMode mode) { present_[uuid] = mode; }
  // done: it is exclusive now (at once, if it was).
  void make_exclusive(const std::string& uuid, Done done);
  // done: it has the mode from before, or nothing was to be given back.
  void give_back(const std::string& uuid, Done done);

  const ModeJournal& changed() const { return journal_; }  // GPUs that are not as we found them

 private:
  ComputeModes(Dir root, ModeJournal journal, Setter set)
      : root_(std::move(root)), journal_(std::move(journal)), set_(std::move(set)) {}
  Status save(const ModeJournal& journal);
  void set(const std::string& uuid, inventory::ComputeMode mode, Done done);

  Dir root_;
  ModeJournal journal_;
  std::map<std::string, inventory::ComputeMode> present_;
  Setter set_;
  std::string lost_;
};

}  // namespace tranche::host
