#pragma once
// The opened library together with what the last scan learned: which handle is which GPU. What both faces of this
// folder (Nvml for moment commands, NvmlThread for agents) are made of. One thread.
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/driver/library.h"
#include "gpu/driver/nvml.h"
#include "gpu/driver/scan.h"

namespace tranche::host::nvml {

class Driver {
 public:
  // Without the library only where the platform is one that needs none.
  static Result<std::unique_ptr<Driver>> open(const NvmlSettings& settings);

  Result<inventory::Inventory> scan();
  Result<std::vector<GpuUse>> use();  // GPUs that do not answer are left out; scans when there was no scan yet
  Status set_compute_mode(const std::string& gpu_uuid, inventory::ComputeMode mode);
  bool has_library() const;             // false: the platform is served without one
  bool answers(const Held& gpu) const;  // false: the driver says that it is lost
  bool more_answer() const;             // than at the last scan: a missing GPU, or one more than were counted

  const Library& library() const { return *library_; }
  const std::vector<Held>& held() const { return held_; }
  const std::vector<Missing>& missing() const { return missing_; }

 private:
  Driver(std::unique_ptr<Library> library, const NvmlSettings& settings, inventory::PlatformSigns signs)
      : library_(std::move(library)), root_(settings.system_root), discovery_(settings.discovery), signs_(signs) {}
  Result<GpuUse> use_of(const Held& gpu) const;
  Result<Held> find(const std::string& gpu_uuid);  // scans when there was no scan yet

  std::unique_ptr<Library> library_;
  std::string root_;
  inventory::Discovery discovery_;
  inventory::PlatformSigns signs_;  // as far as they are known without asking for the GPUs
  std::vector<Held> held_;
  std::vector<Held> ever_held_;  // the latest UUID seen at each index, to name a GPU that fell silent
  std::vector<Missing> missing_;
};

}  // namespace tranche::host::nvml
