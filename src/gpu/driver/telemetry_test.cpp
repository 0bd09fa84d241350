// Activity of the GPUs, read by the driver thread from the stand-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/driver/driver.h"
#include "gpu/driver/session.h"
#include "gpu/driver/watcher_fixture.h"
#include "os/clock/clock.h"

namespace tranche::gpu::nvml {
namespace telemetry_test {

class Reading : public testing::Test {
 protected:
  void start(const std::string& node, std::size_t gpus) {
    sim_ = std::make_unique<SimFixture>(node);
    watcher_ = std::make_unique<Watcher>(quick(*sim_));
    ASSERT_TRUE(watcher_->until([&] { return has_gpus(*watcher_, gpus); }));
  }
  std::vector<GpuTelemetry> measure() {
    const auto before = watcher_->rounds.size();
    watcher_->thread().measure();
    EXPECT_TRUE(watcher_->until([&] { return watcher_->rounds.size() > before; }));
    return watcher_->rounds.empty() ? std::vector<GpuTelemetry>{} : watcher_->rounds.back();
  }
  // Measures again, after a window that is long enough for an average.
  std::vector<GpuTelemetry> measure_again() {
    const MonoTime until = os::mono_now() + std::chrono::milliseconds(1050);
    watcher_->loop().after(until - os::mono_now(), [this] { watcher_->stopped(); });
    watcher_->until([&] { return os::mono_now() >= until; });
    return measure();
  }
  void load(std::uint32_t percent) {
    sim_->node().update_gpu(0, [percent](sim::GpuState& gpu) {
      gpu.utilization = percent;
      gpu.power_mw = 400'000;
      gpu.temperature_c = 61;
      gpu.ecc.corrected_volatile = 3;
    });
  }

  std::unique_ptr<SimFixture> sim_;
  std::unique_ptr<Watcher> watcher_;
};

TEST_F(Reading, ReportsPowerClocksAndErrorsOfEachGpu) {
  start("gpus: {profile: H200, count: 2}\ntopology: vm\n", 2);
  load(80);
  const auto round = measure();
  ASSERT_THAT(round, testing::SizeIs(2));
  const GpuTelemetry& gpu = round[0];
  EXPECT_EQ(gpu.uuid, sim_->node().gpus()[0].uuid);
  EXPECT_EQ(gpu.power_watts, 400);
  EXPECT_EQ(gpu.power_limit_watts, 700);
  EXPECT_GT(gpu.energy_joules, 0);
  EXPECT_EQ(gpu.celsius, 61);
  EXPECT_EQ(gpu.memory_celsius, 66);
  EXPECT_EQ(gpu.utilization, 0.8);
  EXPECT_EQ(gpu.sm_hertz, 1980e6);
  EXPECT_EQ(gpu.clock_reasons, 0u);
  EXPECT_EQ(gpu.ecc_corrected, 3u);
  EXPECT_EQ(gpu.ecc_uncorrected, 0u);
  EXPECT_TRUE(gpu.memory_used);
  EXPECT_EQ(round[1].clock_reasons, 1u) << "idle";
}

TEST_F(Reading, ReadsTheTemperatureByWhicheverCallTheLibraryHas) {
  start("gpus: {profile: H200, count: 1}\ntopology: vm\n", 1);
  load(80);
  for (const char* call : {"nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"}) {
    sim_->fault(sim::FaultKind::kFail, call, static_cast<std::uint32_t>(Return::kFunctionNotFound), 0, 0);
    EXPECT_EQ(measure().at(0).celsius, 61) << call;
    sim_->node().clear_faults();
  }
}

TEST_F(Reading, TheEnergyCounterIsReadEveryTenSeconds) {
  SimFixture sim("gpus: {profile: H200, count: 1}\ntopology: vm\n");
  const auto driver = Driver::open(quick(sim));
  ASSERT_TRUE(driver) << to_string(driver.error());
  ASSERT_TRUE((*driver)->scan());
  Telemetry telemetry;
  const auto energy_at = [&](MonoTime now) {
    telemetry.begin((*driver)->held());
    EXPECT_TRUE(telemetry.step((*driver)->library(), now));
    return telemetry.round()[0].energy_joules;
  };
  const MonoTime start = os::mono_now();
  const auto first = energy_at(start);
  ASSERT_TRUE(first);
  sim.node().update_gpu(0, [](sim::GpuState& gpu) { gpu.power_mw *= 2; });  // doubles the stand-in's counter
  EXPECT_EQ(energy_at(start + std::chrono::seconds(9)), first);
  EXPECT_GT(energy_at(start + std::chrono::seconds(10)), first);
  telemetry.forget((*driver)->library());
}

TEST_F(Reading, ActivityIsTheMeanBetweenTwoReadings) {
  start("gpus: {profile: H200, count: 1}\ntopology: vm\n", 1);
  load(80);
  EXPECT_EQ(measure()[0].activity, GpuActivity{}) << "there was no reading before";
  const auto activity = measure_again()[0].activity;
  EXPECT_EQ(activity.sm, 0.8);
  EXPECT_EQ(activity.occupancy, 0.4);
  EXPECT_EQ(activity.tensor, 0.2);
  EXPECT_EQ(activity.dram, 0.4);
  EXPECT_EQ(activity.pcie_sent, 640.0 * (1 << 20));
  load(20);
  EXPECT_EQ(measure()[0].activity, activity) << "too soon for a window of its own";
}

TEST_F(Reading, AnOlderGpuHasNoActivityAndItIsNotZero) {
  start("gpus: {profile: A100-SXM4-80GB, count: 1}\ntopology: vm\n", 1);
  measure();
  const auto gpu = measure_again()[0];
  EXPECT_EQ(gpu.activity, GpuActivity{});
  EXPECT_TRUE(gpu.power_watts);
}

}  // namespace telemetry_test
}  // namespace tranche::gpu::nvml
