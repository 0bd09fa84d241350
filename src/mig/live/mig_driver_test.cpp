#include "mig/live/mig_driver.h"

#include <gmock/gmock.h>

#include "gpu/driver/sim_fixture.h"
#include "run_until.h"

namespace tranche::mig {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kThree =
    "gpus:\n  - {profile: A100-PCIE-40GB, mig: []}\n  - {profile: A100-PCIE-40GB, mig: []}\n"
    "  - {profile: A100-PCIE-40GB, mig: []}\n";

struct Bed : gpu::nvml::SimFixture {
  Bed() : gpu::nvml::SimFixture(kThree), loop(*os::Loop::open()) { start(); }
  void start() {
    driver = std::make_unique<MigDriver>(*loop, [this] {
      ++returned;
      loop->stop();
    });
  }
  gpu::NvmlSettings impatient() const {
    auto all = settings();
    all.silence = hangs ? 1s : 60s;  // of a busy machine, not of the call
    return all;
  }
  void wait() { EXPECT_TRUE(os::run_until_stopped(*loop)) << "no answer within a minute"; }
  MigDriver::Reading read() {
    MigDriver::Reading reading;
    driver->read(impatient(), [&](MigDriver::Reading answer) {
      reading = std::move(answer);
      loop->stop();
    });
    wait();
    return reading;
  }
  std::vector<MigDriver::Done> apply(const std::vector<unsigned>& gpus) {
    std::vector<MigDriver::Work> work;
    for (const unsigned index : gpus)
      work.push_back({{.index = index,
                       .uuid = node().gpus()[index].uuid,
                       .enabled = true,
                       .instances = {{kNotMadeYet, 9, {0, 4}, {{.placement = {0, 3}}}}}}});
    std::vector<MigDriver::Done> done;
    driver->apply(impatient(), work, [&](std::vector<MigDriver::Done> answer) {
      done = std::move(answer);
      loop->stop();
    });
    wait();
    std::ranges::sort(done, {}, [](const MigDriver::Done& one) { return one.work.target.index; });
    return done;
  }
  void hang(const char* call, int gpu) {
    hang_call(call, 0, gpu);
    hangs = true;
  }
  void heal() {
    node().clear_faults();
    hangs = false;
  }

  std::unique_ptr<os::Loop> loop;
  std::unique_ptr<MigDriver> driver;
  int returned = 0;
  bool hangs = false;
};

std::vector<std::uint32_t> indices(const MigDriver::Reading& reading) {
  std::vector<std::uint32_t> all;
  for (const auto& gpu : reading.gpus) all.push_back(gpu.index);
  return all;
}

// Promise: mig/manager: A driver call on one GPU that never returns is named, and the other GPUs are read.
TEST(MigDriver, AGpuWhoseCallHangsIsNamedAndPassedOver) {
  Bed bed;
  EXPECT_THAT(indices(bed.read()), ElementsAre(0, 1, 2));
  bed.hang("nvmlDeviceGetMigMode", 1);
  for (int round = 0; round < 2; ++round) {  // the second does not touch it
    const auto reading = bed.read();
    EXPECT_EQ(reading.problem, "");
    EXPECT_THAT(indices(reading), ElementsAre(0, 2));
    ASSERT_EQ(reading.silent.size(), 1u);
    EXPECT_THAT(reading.silent[0], HasSubstr("GPU 1: a driver call has not returned for"));
  }
  bed.heal();
  bed.wait();  // the call returns
  EXPECT_EQ(bed.returned, 1);
  EXPECT_THAT(indices(bed.read()), ElementsAre(0, 1, 2));
}

// Promise: mig/manager: A change whose driver call never returns fails with that step, and the other GPUs are changed.
TEST(MigDriver, AChangeThatHangsIsNamedAndTheOthersAreMade) {
  Bed bed;
  bed.hang("nvmlGpuInstanceCreateComputeInstance", 1);
  const auto done = bed.apply({0, 1, 2});
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].outcome.what, MigOutcome::What::kDone);
  EXPECT_EQ(done[1].outcome.what, MigOutcome::What::kFailed);
  EXPECT_THAT(done[1].outcome.why, HasSubstr("to create compute instance 3g.20gb in the GPU instance at slices 0-3"));
  EXPECT_EQ(done[2].outcome.what, MigOutcome::What::kDone);
  bed.heal();
  bed.wait();
  const auto again = bed.apply({1});
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].outcome.what, MigOutcome::What::kDone) << again[0].outcome.why;
}

TEST(MigDriver, ADriverThatHangsAsAWholeIsAProblemAndHoldsOneThreadOnly) {
  Bed bed;
  bed.hang("nvmlDeviceGetCount_v2", -1);
  for (int round = 0; round < 3; ++round) EXPECT_THAT(bed.read().problem, HasSubstr("has not returned for"));
  EXPECT_EQ(bed.apply({0})[0].outcome.what, MigOutcome::What::kFailed);
  bed.heal();
  bed.wait();
  EXPECT_THAT(indices(bed.read()), ElementsAre(0, 1, 2));
}

TEST(MigDriver, ItsEndDoesNotWaitForACallThatHangs) {
  Bed bed;
  bed.hang("nvmlDeviceGetMigMode", 1);
  bed.read();
  bed.driver.reset();  // the thread is left behind
  bed.heal();
  EXPECT_TRUE(os::run_until(*bed.loop, [&] { return !bed.library_in_use(); })) << "the thread goes on, and ends";
}

}  // namespace
}  // namespace tranche::mig
