#pragma once
// What the GPUs do, between who asks (the pages' thread) and who measures (the loop). GPUs are measured only for
// scrapes: once for each, shortly before the next one is due by the interval between the last two, so that the next one
// shows fresh figures without waiting for the driver.
#include <mutex>
#include <optional>
#include <vector>

#include "base/time.h"
#include "gpu/driver/gpu_telemetry.h"
#include "observe/metrics/page.h"

namespace tranche::agent {

class GpuFigures {
 public:
  // Any thread. The newest figures that are not too old. The call counts as a reader, and readers cause measurements.
  std::vector<host::GpuTelemetry> look(MonoTime now);
  // Loop thread, after a look: when to measure; nothing when that is settled already.
  std::optional<MonoTime> next_measurement();
  void put(std::vector<host::GpuTelemetry> round);

 private:
  std::mutex mutex_;
  std::vector<host::GpuTelemetry> round_;
  std::optional<MonoTime> looked_;
  std::optional<MonoTime> due_;  // and not asked for yet
};

// wall: the wall clock at `now`.
metrics::Page gpu_metrics(const std::vector<host::GpuTelemetry>& round, MonoTime now, WallTime wall);

}  // namespace tranche::agent
