#pragma once
// The open library together with the result of the last scan: which handle is which GPU. One-shot commands (`tranche
// plan --inventory node`, `check`) use it directly, agents through the thread of NvmlThread. Calls block. One thread.
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/driver/library.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"
#include "gpu/platform/platform.h"

namespace tranche::gpu::nvml {

struct Held {  // a GPU that answered, with its handle, which is valid until the library is shut down
  std::string uuid;
  std::uint32_t index = 0;
  Device device = nullptr;
  bool mig_enabled = false;
};
struct Missing {  // a GPU that the driver counts but that did not answer
  std::uint32_t index = 0;
  bool lost = false;  // the driver reports GPU_IS_LOST; otherwise no power, no permission …
};

class Driver {
 public:
  // Succeeds without the library only on a platform that needs none. kUnavailable: no driver yet.
  static Result<std::unique_ptr<Driver>> open(const NvmlSettings& settings);

  std::string library_path() const { return library_->path(); }
  // The whole node: by index, and past GPUs that do not answer (one lost GPU makes the look-up by UUID fail for all
  // others).
  Result<Inventory> scan();
  Result<std::vector<GpuUse>> use();  // omits GPUs that do not answer; scans first if no scan was made yet
  // Scans first if no scan was made yet.
  Status set_compute_mode(const std::string& gpu_uuid, ComputeMode mode);
  // False: the platform is served without the library.
  bool has_library() const { return library_->functions().init != nullptr; }
  bool answers(const Held& gpu) const;  // false: the driver reports the GPU as lost
  bool more_answer() const;  // than at the last scan: a missing GPU answers, or the driver counts an additional one

  const Library& library() const { return *library_; }
  const std::vector<Held>& held() const { return held_; }
  const std::vector<Missing>& missing() const { return missing_; }

 private:
  Driver(std::unique_ptr<Library> library, const NvmlSettings& settings, PlatformSigns signs)
      : library_(std::move(library)), root_(settings.system_root), discovery_(settings.discovery), signs_(signs) {}
  Result<GpuUse> use_of(const Held& gpu) const;

  std::unique_ptr<Library> library_;
  std::string root_;
  config::DiscoveryStrategy discovery_;
  PlatformSigns signs_;          // as far as known without querying the GPUs
  std::vector<Held> held_;       // in the order of the inventory's GPUs
  std::vector<Held> ever_held_;  // the latest UUID seen at each index, to name a GPU that stopped answering
  std::vector<Missing> missing_;
};

}  // namespace tranche::gpu::nvml
