#pragma once
// Sets the compute mode of the GPUs that MPS shares to EXCLUSIVE_PROCESS while a daemon serves them, so that no process
// uses the GPU without MPS after the daemon has ended. The earlier mode is written to <mps-root>/compute-mode.json
// before the change, so that the next start can restore it if this program is killed. A GPU under policy "leave" is
// never changed.
//
// Calls the driver through a given function, because driver calls run on a thread of their own. Loop thread.
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/inventory/inventory.h"
#include "os/files/files.h"

namespace tranche::mps {

using EarlierModes = std::map<std::string, gpu::ComputeMode>;     // GPU UUID → mode before the change
Result<EarlierModes> parse_earlier_modes(std::string_view json);  // pure; fuzzed
std::string render_earlier_modes(const EarlierModes& earlier);

class ComputeModes {
 public:
  using Done = std::function<void(Status)>;
  using Setter = std::function<void(const std::string& uuid, gpu::ComputeMode mode, Done done)>;

  // `root`: the file's directory. A file that cannot be used is renamed, and the current modes count as the earlier
  // ones: one GPU whose earlier mode is lost must not keep all others from being shared.
  ComputeModes(os::Dir root, Setter set);
  const std::string& lost() const { return lost_; }  // why the file was renamed and to what; "" = it was not

  // Records the mode that a scan found. A mode set after a scan counts until the next scan, because the driver's thread
  // answers both in the order of the calls. A GPU that was never seen counts as DEFAULT.
  void seen(const std::string& uuid, gpu::ComputeMode mode) { present_[uuid] = mode; }
  // done: the GPU is exclusive (runs at once if it already was).
  void make_exclusive(const std::string& uuid, Done done);
  // done: the earlier mode is restored, or there was none to restore.
  void give_back(const std::string& uuid, Done done);

  const EarlierModes& changed() const { return earlier_; }  // GPUs whose mode we changed

 private:
  Status save(const EarlierModes& earlier);
  void set(const std::string& uuid, gpu::ComputeMode mode, Done done);

  os::Dir root_;
  EarlierModes earlier_;
  std::map<std::string, gpu::ComputeMode> present_;
  Setter set_;
  std::string lost_;
};

}  // namespace tranche::mps
