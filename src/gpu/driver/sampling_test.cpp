// The holders of GPUs, sampled by the driver thread from the stand-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/driver/watcher_fixture.h"
#include "os/clock/clock.h"
#include "os/loop/loop.h"

namespace tranche::gpu::nvml {
namespace sampling_test {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr const char* kTwoH200 = "gpus: {profile: H200, count: 2}\ntopology: vm\n";
constexpr Duration kEvery = 10ms;

class Sampling : public testing::Test {
 protected:
  Sampling() : sim_(kTwoH200) {}
  void start(std::vector<int> gpus, NvmlSettings settings) {
    watcher_ = std::make_unique<Watcher>(std::move(settings));
    ASSERT_TRUE(watcher_->until([&] { return has_gpus(*watcher_, 2); }));
    std::vector<SampleWish> wishes;
    for (const int gpu : gpus) wishes.push_back({.uuid = uuid(gpu), .every = kEvery});
    watcher_->thread().sample(wishes);
  }
  void start(std::vector<int> gpus) { start(std::move(gpus), quick(sim_)); }
  std::string uuid(int gpu) { return sim_.node().gpus()[static_cast<std::size_t>(gpu)].uuid; }
  void put(pid_t pid, std::uint64_t memory, sim::ProcessKind kind, int gpu = 0) {
    ASSERT_TRUE(sim_.node().add_made_up_process({.pid = pid, .gpu = gpu, .kind = kind, .bytes = memory}));
  }
  bool until(const std::function<bool(const std::vector<GpuSample>&)>& condition) {
    return watcher_->until([&] { return !watcher_->samples.empty() && condition(watcher_->samples.back()); });
  }
  static GpuHolder holder(pid_t pid, std::uint64_t memory, bool client) {
    return {.pid = pid, .memory = {memory}, .mps_client = client};
  }
  // Waits for `rounds` more rounds.
  void pass(std::size_t rounds) {
    ASSERT_TRUE(watcher_->until(
        [&, before = watcher_->samples.size()] { return watcher_->samples.size() >= before + rounds; }));
  }

  SimFixture sim_;
  std::unique_ptr<Watcher> watcher_;
};

TEST_F(Sampling, ReportsServerAndClientsWithTheirMemory) {
  put(10, 66 << 20, sim::ProcessKind::kMpsServer);
  put(12, 500 << 20, sim::ProcessKind::kMpsClient);
  put(11, 400 << 20, sim::ProcessKind::kCompute);
  start({0});
  ASSERT_TRUE(until([](const auto& samples) { return samples.size() == 1 && samples[0].holders.size() == 3; }));
  const GpuSample& sample = watcher_->samples.back()[0];
  EXPECT_EQ(sample.uuid, uuid(0));
  EXPECT_EQ(sample.problem, "");
  EXPECT_THAT(sample.holders,
              ElementsAre(holder(10, 66 << 20, false), holder(11, 400 << 20, false), holder(12, 500 << 20, true)));
  EXPECT_NE(sample.clients_read, MonoTime{});
}

TEST_F(Sampling, FiguresAreTheSameWhileNothingChanges) {
  put(12, 500, sim::ProcessKind::kMpsClient);
  NvmlSettings settings = quick(sim_);
  settings.event_pace = 1h;
  start({0, 1}, settings);
  // Until the list of clients is read only every 5 s.
  ASSERT_TRUE(until([](const auto& samples) { return samples.size() == 2 && samples[0].holders.size() == 1; }));
  pass(20);
  const auto& all = watcher_->samples;
  std::size_t changes = 1;
  for (std::size_t i = 1; i < all.size(); ++i)
    changes += std::ranges::equal(all[i], all[i - 1], &GpuSample::same_figures) ? 0 : 1;
  EXPECT_LE(changes, 10u) << "the first, and the list of clients after one, two, four … 256 rounds";
  put(12, 700, sim::ProcessKind::kMpsClient);
  ASSERT_TRUE(until([](const auto& samples) { return samples[0].holders.at(0).memory.value == 700; }));
  put(13, 100, sim::ProcessKind::kMpsClient, 1);
  ASSERT_TRUE(until([](const auto& samples) { return samples[1].holders == std::vector{holder(13, 100, true)}; }));
  EXPECT_THAT(watcher_->samples.back()[0].holders, ElementsAre(holder(12, 700, true))) << "all are reported";
}

TEST_F(Sampling, AProcessThatIsAClientOnlyLaterIsSeenAsOne) {
  put(12, 500, sim::ProcessKind::kCompute);
  start({0});
  ASSERT_TRUE(until([](const auto& samples) { return samples[0].holders.size() == 1; }));
  EXPECT_FALSE(watcher_->samples.back()[0].holders[0].mps_client);
  const MonoTime before = watcher_->samples.back()[0].clients_read;
  put(12, 500, sim::ProcessKind::kMpsClient);
  ASSERT_TRUE(until([](const auto& samples) { return samples[0].holders.at(0).mps_client; }));
  EXPECT_GT(watcher_->samples.back()[0].clients_read, before);
}

TEST_F(Sampling, AGpuThatCannotBeReadSaysWhyAndComesBack) {
  put(12, 500, sim::ProcessKind::kMpsClient);
  start({0, 1});
  ASSERT_TRUE(until([](const auto& samples) { return samples[0].holders.size() == 1; }));
  sim_.fail_call("nvmlDeviceGetComputeRunningProcesses_v3", 0, 999);
  ASSERT_TRUE(until([](const auto& samples) { return !samples[0].problem.empty(); }));
  EXPECT_THAT(watcher_->samples.back()[0].problem, testing::HasSubstr("cannot list the processes"));
  EXPECT_THAT(watcher_->samples.back()[0].holders, testing::IsEmpty());
  EXPECT_EQ(watcher_->samples.back()[1].problem, "");
  sim_.node().clear_faults();
  ASSERT_TRUE(until([](const auto& samples) { return samples[0].holders.size() == 1; }));
  EXPECT_TRUE(watcher_->samples.back()[0].holders[0].mps_client);
}

TEST_F(Sampling, GoesOnAfterTheDriverWasUnloaded) {
  put(12, 500, sim::ProcessKind::kMpsClient);
  start({0});
  ASSERT_TRUE(until([](const auto& samples) { return samples[0].holders.size() == 1; }));
  sim_.fail_call("nvmlDeviceGetCount_v2", -1, 999);
  watcher_->thread().rescan();
  ASSERT_TRUE(until([](const auto& samples) { return !samples[0].problem.empty(); }));
  sim_.node().clear_faults();
  EXPECT_TRUE(until([](const auto& samples) { return samples[0].holders.size() == 1; }));
}

TEST_F(Sampling, EndsWhenItIsAskedTo) {
  start({0});
  ASSERT_TRUE(until([](const auto& samples) { return samples[0].problem.empty(); }));
  watcher_->thread().sample({});
  watcher_->thread().ask_use();  // answered after that
  ASSERT_TRUE(watcher_->until([&] { return !watcher_->uses.empty(); }));
  const std::size_t rounds = watcher_->samples.size();
  watcher_->loop().after(5 * kEvery, [this] { watcher_->stopped(); });
  watcher_->loop().run();
  EXPECT_EQ(watcher_->samples.size(), rounds);
}

TEST_F(Sampling, EachGpuHasItsOwnPaceWhichMayChange) {
  start({0, 1});
  ASSERT_TRUE(until([](const auto& samples) { return samples[1].problem.empty(); }));
  watcher_->thread().sample({{.uuid = uuid(0), .every = kEvery}, {.uuid = uuid(1), .every = 1h}});
  pass(5);
  const MonoTime rests = watcher_->samples.back()[1].at;
  pass(5);
  EXPECT_EQ(watcher_->samples.back()[1].at, rests);
  EXPECT_GT(watcher_->samples.back()[0].at, rests);
  watcher_->thread().sample({{.uuid = uuid(0), .every = kEvery}, {.uuid = uuid(1), .every = kEvery}});
  EXPECT_TRUE(until([&](const auto& samples) { return samples[1].at != rests; })) << "and not in an hour";
}

// Promise: guard: Growth of the total reads the processes at once.
TEST_F(Sampling, AGlanceThatSeesGrowthReadsTheHoldersAtOnce) {
  put(12, 500 << 20, sim::ProcessKind::kMpsClient);
  start({0});
  ASSERT_TRUE(until([](const auto& samples) { return samples[0].holders.size() == 1; }));
  watcher_->thread().sample({{.uuid = uuid(0), .every = 1h, .glance = 1ms}});
  watcher_->thread().ask_use();  // answered after that
  ASSERT_TRUE(watcher_->until([&] { return !watcher_->uses.empty(); }));
  // The first glance has no earlier value to compare with: growth before it is seen at the next full sample.
  for (std::uint64_t memory = 516; memory <= 1012; memory += 16) {
    put(12, memory << 20, sim::ProcessKind::kMpsClient);
    watcher_->loop().after(5ms, [this] { watcher_->stopped(); });
    watcher_->loop().run();
  }
  EXPECT_TRUE(until([](const auto& samples) { return samples[0].holders.at(0).memory == mib(1012); }));
}

TEST_F(Sampling, EventsAreHeardAtTheirOwnPace) {
  NvmlSettings settings = quick(sim_);
  settings.event_pace = 1h;
  start({0}, settings);
  ASSERT_TRUE(until([](const auto& samples) { return samples[0].problem.empty(); }));
  pass(2);  // at first, events are polled immediately
  sim_.node().raise({.gpu = 0, .kind = sim::EventKind::kXid, .data = 31});
  pass(5);
  EXPECT_TRUE(watcher_->events.empty()) << "sampling does not pay for it";
  watcher_->thread().ask_use();
  EXPECT_TRUE(watcher_->until([&] { return !watcher_->events.empty(); })) << "a request does not wait";
}

}  // namespace sampling_test
}  // namespace tranche::gpu::nvml
