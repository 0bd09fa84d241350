#pragma once
// Measures the activity of the GPUs on request: one GPU per step, because a step may take several milliseconds (energy
// and GPM) and memory holders are sampled in between. Activity is the average since the previous reading; the first
// reading has none. The energy counter is read every 10 seconds at most. Driver thread only.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "gpu/driver/gpu_telemetry.h"
#include "gpu/driver/library.h"
#include "gpu/driver/scan.h"

namespace tranche::gpu::nvml {

class Telemetry {
 public:
  Telemetry() = default;
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  void begin(const std::vector<Held>& held);  // starts a round; continues one that is in progress
  bool under_way() const { return !waiting_.empty(); }
  bool step(const Library& library, MonoTime now);  // true: the round is complete
  const std::vector<GpuTelemetry>& round() const { return round_; }
  // Handles and MIG devices may change after this. Call before the library is shut down.
  void forget(const Library& library);

 private:
  struct Window {  // between two samples of one GPU, GPU instance or compute instance
    GpmSample before = nullptr;
    GpmSample next = nullptr;
    std::optional<MonoTime> at;
    GpuActivity last;
  };
  struct Energy {
    std::optional<MonoTime> at;
    std::optional<double> joules;
  };
  template <class Take>
  GpuActivity activity(const Library& library, const std::string& key, MonoTime now, Take take);
  std::optional<GpuActivity> between(const Functions& f, const Window& window) const;
  GpuTelemetry read(const Library& library, const Held& gpu, MonoTime now);
  void read_mig(const Library& library, const Held& gpu, GpuTelemetry& into, MonoTime now);

  std::vector<Held> waiting_;
  std::vector<GpuTelemetry> round_;
  std::map<std::string, Window> windows_;
  std::map<std::string, Energy> energies_;  // by GPU
};

}  // namespace tranche::gpu::nvml
