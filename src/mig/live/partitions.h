#pragma once
// The MIG instances of claims on this node's GPUs: reads how the GPUs are partitioned, and makes and destroys single
// instances, one call after the other, on the thread of a MigDriver of its own. Decides nothing, and keeps no record of
// what is whose. Loop thread only.
#include <functional>
#include <map>
#include <string>

#include "base/result.h"
#include "mig/live/mig_driver.h"

namespace tranche::mig {

class MigPartitions {
 public:
  using Changed = std::function<void(Result<std::string> uuid)>;  // of the MIG device; "" of one that was removed
  struct Callbacks {
    std::function<gpu::NvmlSettings()> driver;
    std::function<void()> changed;  // gpus() or problem() is different
  };
  MigPartitions(os::Loop& loop, Callbacks callbacks);

  // The GPUs may be partitioned differently: they are read, once for all calls until then.
  void look();
  // `done` comes once, later. A GPU that does not answer is kUnavailable; removing an instance of one that is not there
  // succeeds. Errors: mig/driver/apply.h.
  void change(const std::string& gpu_uuid, const MigPartition& partition, Changed done);

  bool known() const { return known_; }                                  // they were read, or cannot be
  const std::map<std::string, GpuState>& gpus() const { return gpus_; }  // by UUID, as they were read last
  const std::string& problem() const { return problem_; }                // why they cannot be read

 private:
  bool is_new(const GpuState& gpu);  // its layout; keeps it
  void on_read(const MigDriver::Reading& reading);
  void on_changed(const MigDriver::Done& result, const Changed& done);

  Callbacks callbacks_;
  MigDriver driver_;
  bool looking_ = false;
  bool again_ = false;  // look() came meanwhile
  bool known_ = false;
  std::map<std::string, GpuState> gpus_;
  std::string problem_;
};

}  // namespace tranche::mig
