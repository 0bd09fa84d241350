#pragma once
// Reads and changes how GPUs are partitioned by MIG. Layouts are read by GPU instance, so instances without a compute
// instance are included. A step is one call of the driver; the caller reads the layout again afterwards,
// because a driver may report success and change nothing. What the driver does not show of profiles comes from the
// tables; holders are the processes that it lists. Handles are looked up for every call, because a handle is
// invalid once its instance is destroyed. Calls block, sometimes for seconds: use one thread, never the loop's.
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/driver/nvml.h"
#include "gpu/mig/state.h"

namespace tranche::gpu {

struct MigCare {
  std::set<std::uint32_t> pass_over{};                    // GPUs that no call touches: one hangs on them
  std::function<void(std::uint32_t index)> on_reading{};  // before the first call on each GPU that is read
};

class MigAdmin {
 public:
  // kUnavailable: no driver yet.
  static Result<std::unique_ptr<MigAdmin>> open(const NvmlSettings& settings, MigCare care = {});
  virtual ~MigAdmin() = default;  // shuts the library down

  // Omits GPUs that do not answer, one sentence each in `silent`.
  virtual Result<std::vector<mig::GpuState>> read(std::vector<std::string>& silent) = 0;
  virtual Result<mig::GpuState> read(const std::string& gpu_uuid) = 0;

  // A success of a mode change may leave the mode pending until the GPU is reset, for which there is no call.
  virtual Status take(const std::string& gpu_uuid, const mig::Step& step) = 0;
};

}  // namespace tranche::gpu
