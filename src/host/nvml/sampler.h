#pragma once
// Reads the holders of a few GPUs again and again, and knows when something is other than before. One thread.
#include <string>
#include <vector>

#include "base/time.h"
#include "host/nvml/library.h"
#include "host/nvml/nvml.h"
#include "host/nvml/processes.h"
#include "host/nvml/scan.h"

namespace tranche::host::nvml {

class Sampler {
 public:
  void follow(std::vector<std::string> gpu_uuids);
  // After every scan, whose handles are new ones; one that is not among them cannot be read. `every`: between rounds.
  void handles(const std::vector<Held>& held, Duration every);
  bool round(const Library& library, MonoTime now);  // true: samples() are others, or their clients were read again
  const std::vector<GpuSample>& samples() const { return samples_; }

 private:
  struct Gpu {
    Device device = nullptr;
    ProcessList compute;
    ProcessList clients;
    MonoTime clients_at{};  // when to read them again
    Duration pause{};       // and how long after that
    bool fresh = true;      // nothing was read yet
  };
  bool read(const Library& library, Gpu& gpu, GpuSample& sample, MonoTime now);

  std::vector<Gpu> gpus_;  // as samples_
  std::vector<GpuSample> samples_;
  Duration every_{};
};

}  // namespace tranche::host::nvml
