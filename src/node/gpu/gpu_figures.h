#pragma once
// Activity of the GPUs, passed from the loop (which measures) to the pages' thread (which serves scrapes). GPUs are
// measured only for scrapes: once for each, shortly before the next one is due by the interval between the last two, so
// that it shows fresh figures without waiting for the driver.
#include <mutex>
#include <optional>
#include <vector>

#include "base/time.h"
#include "gpu/driver/nvml.h"
#include "observe/metrics/page.h"

namespace tranche::node {

class GpuFigures {
 public:
  // Any thread. Returns the newest figures unless they are too old. The call counts as a scrape, and scrapes cause
  // measurements.
  std::vector<gpu::GpuTelemetry> look(MonoTime now);
  // Loop thread, after look(): when to measure; absent: no scrape has come since the last measurement.
  std::optional<MonoTime> next_measurement();
  void begin_measurement();
  void put(std::vector<gpu::GpuTelemetry> round);

 private:
  std::mutex mutex_;
  std::vector<gpu::GpuTelemetry> round_;
  std::optional<MonoTime> looked_;
  std::optional<MonoTime> due_;
};

// wall: the wall clock at `now`.
void put_gpu_metrics(metrics::Page& page, const std::vector<gpu::GpuTelemetry>& round, MonoTime now, WallTime wall);

}  // namespace tranche::node
