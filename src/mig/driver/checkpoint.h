#pragma once
// What all GPUs of a node are partitioned into, as a file of mig-parted's `checkpoint`: modes, GPU instances with their
// placements, compute instances. UUIDs of MIG devices are not part of it, and the driver gives new ones. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mig/mig_plan.h"

namespace tranche::mig {

struct Checkpoint {
  struct Instance {
    std::uint32_t number = 0;  // of the profile in the driver's enumeration
    Placement place;
    std::vector<std::uint32_t> compute;  // of each compute instance the profile's number in the driver's enumeration
  };
  struct Gpu {
    std::string uuid;
    bool enabled = false;
    std::vector<Instance> instances;
  };
  std::vector<Gpu> gpus;
};

std::string checkpoint_text(const std::vector<GpuState>& gpus);  // GPUs without MIG are left out
Result<Checkpoint> parse_checkpoint(std::string_view text);      // strict: every member, and version v1

// The way from what the GPUs have now to the checkpoint: what is as there stays. A GPU that the checkpoint does not
// have stays as it is; one that the node does not have, and a profile that its GPU does not have, are errors among the
// plan's problems, and nothing is changed then.
Plan restoring_plan(const Checkpoint& checkpoint, const std::vector<GpuState>& gpus, bool mode_only,
                    const std::string& source);

}  // namespace tranche::mig
