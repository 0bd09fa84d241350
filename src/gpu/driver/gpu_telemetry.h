#pragma once
// Activity of a GPU and its MIG devices, as the driver measures it at one moment or between two. A figure that the
// driver does not provide is absent. Plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/units.h"

namespace tranche::gpu {

// Averages between two samples of the driver's performance monitoring (GPM, Hopper and newer); fractions from 0 to 1.
struct GpuActivity {
  std::optional<double> graphics, sm, occupancy, tensor, dram;
  std::optional<double> pcie_sent, pcie_received, nvlink_sent, nvlink_received;  // bytes per second
  friend bool operator==(const GpuActivity&, const GpuActivity&) = default;
};

struct MigTelemetry {
  std::string uuid;
  std::optional<Bytes> memory_used;
  GpuActivity activity;  // without the links, which belong to the GPU
};

struct GpuTelemetry {
  std::string uuid;
  MonoTime at{};
  std::optional<Bytes> memory_used;   // includes the memory that the driver reserves
  std::optional<double> utilization;  // fraction of the driver's last period in which any kernel ran
  std::optional<double> power_watts, power_limit_watts;
  std::optional<double> energy_joules;  // since the driver was loaded
  std::optional<double> celsius, memory_celsius;
  std::optional<double> sm_hertz, memory_hertz;
  std::optional<std::uint64_t> clock_reasons;                   // bits of nvmlClocksEventReasons
  std::optional<std::uint64_t> ecc_corrected, ecc_uncorrected;  // since the driver was loaded
  GpuActivity activity;
  std::vector<MigTelemetry> mig;
};

}  // namespace tranche::gpu
