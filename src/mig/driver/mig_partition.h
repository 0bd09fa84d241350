#pragma once
// Makes and destroys one MIG instance at one place, for a claim: a GPU instance with one compute instance that fills
// it. Other instances of the GPU are left alone, whatever happens. As in apply.h, the GPU is read again after each call
// and the next call is derived from what is there, so a call that was interrupted is gone on with. The caller has on
// disk that the instance is its own before it has it made. Calls block: a worker's thread. One GPU at a time.
#include <optional>
#include <string>

#include "base/result.h"
#include "mig/driver/apply.h"

namespace tranche::host {

struct MigPartition {
  std::uint32_t profile_id = 0;
  std::uint32_t slices = 0;  // compute slices of the profile
  mig::Placement place;
  enum class What {
    kLook,    // nothing is made; nothing may be at its place
    kMake,    // the same, and it is made; the caller has on disk that it is begun
    kFinish,  // an earlier kMake may have ended in between: what is at its place with this profile is the caller's
    kFind,    // it was made, with `uuid`
    kRemove,  // with `uuid`, if that is known; one that is gone is a success
  };
  What what = What::kMake;
  std::string uuid{};  // of its MIG device
};

struct MigPartitionOutcome {
  // kConflict: an instance that is not the caller's is in the way, and none is the caller's; or kRemove, and it is in
  // use; kNotFound: kFind, and it is gone; kUnavailable: MIG mode is off; else the driver's error. What kMake made and
  // did not finish is destroyed, as far as the driver does it.
  Status status;
  std::string uuid;                  // of the MIG device, unless it was removed
  std::optional<mig::GpuState> now;  // as it was read last
};

// Of the callbacks `pause`, `stop` and on_step are used.
MigPartitionOutcome change_partition(MigAdmin& admin, const std::string& gpu_uuid, const MigPartition& partition,
                                     const MigApply::Callbacks& callbacks);

}  // namespace tranche::host
