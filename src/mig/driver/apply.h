#pragma once
// Changes what one GPU is cut into, call by call: to a wanted layout, or by one instance for a claim. After each driver
// call the GPU is read again and the next call is derived from what is there: a call that reports success and did
// nothing is noticed and repeated, a call that reports failure and did its work is not repeated. Calls block: a
// worker's thread, or the program's own in a command. One GPU at a time.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/driver/mig/mig_admin.h"
#include "mig/mig_plan.h"

namespace tranche::mig {

struct MigOutcome {
  enum class What {
    kDone,
    kInUse,       // `holders` use instances that the change removes; nothing that is in use was touched
    kNeedsReset,  // the mode is pending until the GPU is reset
    kStopped,     // between two calls
    kFailed,      // `why`, and `left` when the layout is not what it was before
  };
  What what = What::kDone;
  std::string why{};
  std::string left{};                  // what the GPU is cut into now, when that is neither the target nor as before
  std::vector<std::string> holders{};  // "process 4711"; the caller's own words
  std::vector<std::string> steps{};    // that were taken, in order
  GpuState now{};                      // as it was read last
};

struct MigCallbacks {
  Users users{};                                    // any thread; not for a partition
  std::function<void(const Step& step)> on_step{};  // before each call
  std::function<bool(Duration)> pause{};            // before each call, longer before another try; false: stop
};

// Cuts the GPU of `target` into its layout. It destroys no instance that is in use by the report of the driver or the
// caller. After a failure it restores the layout that it found, except for instances in use; `left` then names the
// layout that remains. A program that was killed on the way leaves no record: the next call goes on from what the GPU
// has.
MigOutcome apply_layout(gpu::MigAdmin& admin, const GpuState& target, const MigCallbacks& callbacks);

// One MIG instance at one place, for a claim: a GPU instance with one compute instance that fills it. Other instances
// of the GPU are left alone, whatever happens. A call that was interrupted is gone on with. The caller has on disk that
// the instance is its own before it has it made.
struct MigPartition {
  WholeInstance instance;
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
  std::string uuid;             // of the MIG device, unless it was removed
  std::optional<GpuState> now;  // as it was read last
};

MigPartitionOutcome change_partition(gpu::MigAdmin& admin, const std::string& gpu_uuid, const MigPartition& partition,
                                     const MigCallbacks& callbacks);

// Resets a GPU as an administrator does, with nvidia-smi of the driver's root: the driver library has no call for it.
// nvidia-smi refuses while a program uses the GPU; it has a minute. kNotFound: the driver root has no nvidia-smi.
Status reset_gpu(const std::string& driver_root, const std::string& gpu_uuid,
                 const std::map<std::string, std::string>& environment);

}  // namespace tranche::mig
