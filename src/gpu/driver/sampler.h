#pragma once
// Reads the holders of a few GPUs repeatedly and detects changes. One thread.
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "gpu/driver/library.h"
#include "gpu/driver/nvml.h"
#include "gpu/driver/processes.h"
#include "gpu/driver/scan.h"

namespace tranche::gpu::nvml {

class Sampler {
 public:
  bool follow(std::vector<SampleWish> wishes, MonoTime now);  // true: different GPUs than before, without handles yet
  // Call after every scan, which has new handles; a GPU that is not among them cannot be read.
  void handles(const std::vector<Held>& held);
  MonoTime due() const { return due_; }              // when the next of them is due
  bool round(const Library& library, MonoTime now);  // true: samples() has changed, or their clients were read again
  const std::vector<GpuSample>& samples() const { return samples_; }

 private:
  struct Gpu {
    SampleWish wish;
    Device device = nullptr;
    ProcessList compute;
    ProcessList clients;
    MonoTime at{};  // when to read its holders
    MonoTime glance_at = MonoTime::max();
    std::optional<std::uint64_t> used;  // at the last glance
    MonoTime clients_at{};              // when to read the clients again
    Duration pause{};                   // and how long after that
    bool fresh = true;                  // not read yet
  };
  bool read(const Library& library, Gpu& gpu, GpuSample& sample, MonoTime now);
  void plan();

  std::vector<Gpu> gpus_;  // parallel to samples_
  std::vector<GpuSample> samples_;
  MonoTime due_ = MonoTime::max();
};

}  // namespace tranche::gpu::nvml
