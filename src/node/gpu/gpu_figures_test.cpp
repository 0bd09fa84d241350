#include "node/gpu/gpu_figures.h"

#include <gmock/gmock.h>

namespace tranche::node {
namespace gpu_figures_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr MonoTime kStart{1000s};

gpu::GpuTelemetry measured(MonoTime at) {
  gpu::GpuTelemetry gpu;
  gpu.uuid = "GPU-0";
  gpu.at = at;
  gpu.power_watts = 400.5;
  gpu.clock_reasons = 0x4;
  gpu.activity.sm = 0.47;
  gpu.mig.push_back({"MIG-0", mib(3), {}});
  return gpu;
}

TEST(GpuFigures, OneMeasurementForEachLookShortlyBeforeTheNext) {
  GpuFigures figures;
  EXPECT_FALSE(figures.next_measurement()) << "there is no reader";
  EXPECT_THAT(figures.look(kStart), IsEmpty());
  EXPECT_EQ(figures.next_measurement(), kStart) << "at once: the interval between two readers is not known yet";
  figures.begin_measurement();
  EXPECT_FALSE(figures.next_measurement());
  figures.look(kStart + 15s);
  EXPECT_EQ(figures.next_measurement(), kStart + 29s);
  figures.look(kStart + 15s + 10ms);
  EXPECT_EQ(figures.next_measurement(), kStart + 29s) << "a second program, at the same time";
  figures.begin_measurement();
  figures.look(kStart + 17s);
  EXPECT_EQ(figures.next_measurement(), kStart + 18500ms);
}

// A measurement that a long pause has put far off would leave a reader that comes every second without figures.
TEST(GpuFigures, AReaderThatComesMoreOftenAfterAPauseBringsTheMeasurementForward) {
  GpuFigures figures;
  figures.look(kStart);
  figures.begin_measurement();
  figures.look(kStart + 40s);
  EXPECT_EQ(figures.next_measurement(), kStart + 79s);
  figures.look(kStart + 41s);
  EXPECT_EQ(figures.next_measurement(), kStart + 41750ms);
  figures.look(kStart + 51s);
  EXPECT_EQ(figures.next_measurement(), kStart + 41750ms) << "a later one does not put it off";
}

TEST(GpuFigures, FiguresThatAreTooOldAreNotShown) {
  GpuFigures figures;
  figures.put({measured(kStart)});
  EXPECT_THAT(figures.look(kStart + 4min), SizeIs(1));
  EXPECT_THAT(figures.look(kStart + 6min), IsEmpty());
}

TEST(GpuFigures, WhatTheDriverDoesNotGiveIsAbsent) {
  metrics::Page page;
  put_gpu_metrics(page, {measured(kStart)}, kStart + 2s, WallTime{5000s});
  const auto text = metrics::to_text(page).str();
  EXPECT_THAT(text, HasSubstr("tranche_gpu_sample_timestamp_seconds{gpu=\"GPU-0\"} 4998\n"));
  EXPECT_THAT(text, HasSubstr("tranche_gpu_power_watts{gpu=\"GPU-0\"} 400.5\n"));
  EXPECT_THAT(text, HasSubstr("tranche_gpu_throttle_reason{gpu=\"GPU-0\",reason=\"sw_power_cap\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tranche_gpu_throttle_reason{gpu=\"GPU-0\",reason=\"hw_thermal\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("tranche_gpu_sm_active_ratio{gpu=\"GPU-0\"} 0.47\n"));
  EXPECT_THAT(text, HasSubstr("tranche_mig_memory_used_bytes{gpu=\"GPU-0\",mig=\"MIG-0\"} 3145728\n"));
  for (const char* absent : {"energy", "celsius", "ecc", "tensor", "pcie", "mig_sm"})
    EXPECT_THAT(text, Not(HasSubstr(absent)));
}

}  // namespace gpu_figures_test
}  // namespace tranche::node
