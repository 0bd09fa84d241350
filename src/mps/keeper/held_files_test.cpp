#include "mps/keeper/held_files.h"

#include <gmock/gmock.h>
#include <sys/epoll.h>

#include <chrono>

#include "mps/keeper/held_fixture.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum DeviceKind;

TEST(NvidiaDevices, AreKnownByTheirNumbers) {
  const auto devices = NvidiaDevices::parse(
      "Character devices:\n  1 mem\n  5 /dev/tty\n195 nvidia\n195 nvidiactl\n195 nvidia-modeset\n234 nvidia-caps\n"
      "235 nvidia-uvm\n\nBlock devices:\n259 nvidia\n");
  EXPECT_EQ(devices.kind(195, 0), kGpu);
  EXPECT_EQ(devices.kind(195, 255), kControl);
  EXPECT_EQ(devices.kind(234, 2), kCapability);
  EXPECT_EQ(devices.kind(235, 0), kUvm);
  EXPECT_EQ(devices.kind(1, 3), std::nullopt);
  EXPECT_EQ(devices.kind(259, 0), std::nullopt);
}

TEST(NvidiaDevices, OfAnOlderDriverHaveAnotherName) {
  EXPECT_EQ(NvidiaDevices::parse("195 nvidia-frontend\n").kind(195, 255), kControl);
}

TEST(HeldFiles, OutliveTheProcess) {
  HoldsDevices process(4);
  HeldFiles held;
  const auto looked = held.look(process.pid(), process.pidfd(), NvidiaDevices::parse(kTerminalsAreUvm));
  EXPECT_EQ(looked.added, 4U);
  EXPECT_EQ(looked.problem, "");
  EXPECT_EQ(held.uvm(), 4U);
  process.die();
  EXPECT_EQ(process.closed(), 0U);
  auto files = held.take();
  close_in_order(files);
  EXPECT_EQ(process.closed(), 4U);
}

TEST(HeldFiles, OfNoNvidiaDeviceAreNone) {
  HoldsDevices process(2);
  HeldFiles held;
  EXPECT_EQ(held.look(process.pid(), process.pidfd(), NvidiaDevices::parse("195 nvidia\n")).added, 0U);
  EXPECT_EQ(held.size(), 0U);
}

TEST(HeldFiles, OfALaterLookAreAddedAndWhatTheProcessClosedIsDropped) {
  HoldsDevices process(1);
  HeldFiles held;
  const auto devices = NvidiaDevices::parse(kTerminalsAreUvm);
  held.look(process.pid(), process.pidfd(), devices);
  process.open_one();
  EXPECT_EQ(held.look(process.pid(), process.pidfd(), devices).added, 1U);
  process.close_all();
  process.open_one();  // under the number of one that is closed
  auto looked = held.look(process.pid(), process.pidfd(), devices);
  EXPECT_EQ(looked.added, 1U);
  EXPECT_EQ(looked.dropped.size(), 2U);
  EXPECT_EQ(held.size(), 1U);
  EXPECT_EQ(process.closed(), 0U);
  close_in_order(looked.dropped);
  EXPECT_EQ(process.closed(), 2U);
}

TEST(HeldFiles, OfAProcessThatHasExitedStay) {
  HoldsDevices process(2);
  HeldFiles held;
  const auto devices = NvidiaDevices::parse(kTerminalsAreUvm);
  const auto pid = process.pid();
  const auto pidfd = process.pidfd();
  held.look(pid, pidfd, devices);
  process.die();
  const auto looked = held.look(pid, pidfd, devices);
  EXPECT_TRUE(looked.dropped.empty());
  EXPECT_EQ(held.size(), 2U);
}

// What protects the neighbours comes before the rest, and has places of its own.
TEST(HeldFiles, OfOneProcessAreBounded) {
  HoldsDevices process(63);
  HeldFiles held;
  const auto gpus = NvidiaDevices::parse("136 nvidia\n");
  const auto uvm = NvidiaDevices::parse(kTerminalsAreUvm);
  EXPECT_EQ(held.look(process.pid(), process.pidfd(), gpus).problem, "");
  EXPECT_EQ(held.size(), 48U);
  EXPECT_EQ(held.look(process.pid(), process.pidfd(), uvm).problem, "");
  EXPECT_EQ(held.size(), 63U);
  process.open_one();
  process.open_one();
  EXPECT_THAT(held.look(process.pid(), process.pidfd(), uvm).problem, HasSubstr("more than 64 descriptors"));
  EXPECT_EQ(held.size(), 64U);
}

TEST(HeldFiles, OfAThreadThatDoesNotShareThemAreReported) {
  HoldsDevices process(1);
  process.start_thread(false);
  EXPECT_EQ(why_not_shared(process.pid(), process.pid()), "");
  process.start_thread(true);
  EXPECT_THAT(why_not_shared(process.pid(), process.pid()), HasSubstr("do not share their descriptors"));
}

TEST(HeldFiles, OfThreadsWhoseFirstHasExitedAreShared) {
  HoldsDevices process(1);
  process.exit_first_thread();
  EXPECT_EQ(why_not_shared(process.pid(), HeldFiles().look(process.pid(), process.pidfd(), {}).owner), "");
}

// Each costs the keeper time that it does not have for others.
TEST(HeldFiles, AreLookedForAmongABoundedNumber) {
  HoldsDevices process(1);
  process.open_others(4096);
  process.open_one();
  HeldFiles held;
  const auto looked = held.look(process.pid(), process.pidfd(), NvidiaDevices::parse(kTerminalsAreUvm));
  EXPECT_EQ(looked.problem, "it has more than 4096 descriptors");
  EXPECT_EQ(looked.added, 1U);
}

// Its close could wait for as long as the process wants: a TCP connection with SO_LINGER.
TEST(HeldFiles, OfAnotherKindUnderTheNumberOfADeviceAreLeftToTheCaller) {
  HoldsDevices process(1);
  process.exchange_last();
  Looked looked;
  for (const auto end = std::chrono::steady_clock::now() + 60s;
       !looked.foreign && std::chrono::steady_clock::now() < end;)
    looked = HeldFiles().look(process.pid(), process.pidfd(), NvidiaDevices::parse(kTerminalsAreUvm));
  ASSERT_TRUE(looked.foreign);
  EXPECT_EQ(looked.problem, kExchanges);
  process.die();
  EXPECT_TRUE(process.has_pipe()) << "it is open";
  looked.foreign.reset();
  EXPECT_FALSE(process.has_pipe());
}

// Promise: deaths: A client whose first thread has exited is held as well, with what it opens after that.
TEST(HeldFiles, OfAProcessWhoseFirstThreadHasExitedAreHeld) {
  HoldsDevices process(2);
  process.exit_first_thread();
  HeldFiles held;
  const auto devices = NvidiaDevices::parse(kTerminalsAreUvm);
  const auto looked = held.look(process.pid(), process.pidfd(), devices);
  if (looked.problem.find("from Linux 6.9 on") != std::string::npos) GTEST_SKIP() << looked.problem;
  EXPECT_EQ(looked.added, 2U);
  process.open_one();
  EXPECT_EQ(held.look(process.pid(), process.pidfd(), devices).added, 1U);
  EXPECT_EQ(held.look(process.pid(), process.pidfd(), devices).added, 0U) << "they are known";
  process.die();
  EXPECT_EQ(process.closed(), 0U);
}

// Measured: another order can end the neighbours (docs/internals/evidence/deaths.md).
TEST(HeldFiles, AreClosedInTheOrderOfTheirKinds) {
  std::vector<os::Fd> other_sides;
  std::vector<HeldFile> files;
  const os::Fd heard(::epoll_create1(EPOLL_CLOEXEC));
  for (const auto kind : {kUvm, kControl, kGpu, kUvm, kCapability, kGpu}) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    epoll_event event{.events = 0, .data = {.u32 = static_cast<std::uint32_t>(kind)}};
    ASSERT_EQ(::epoll_ctl(heard.get(), EPOLL_CTL_ADD, ends[0], &event), 0);
    other_sides.emplace_back(ends[0]);
    files.push_back({os::Fd(ends[1]), kind});
  }
  close_in_order(files);
  std::vector<DeviceKind> order;
  epoll_event events[8];
  const int count = ::epoll_wait(heard.get(), events, 8, 0);
  for (int i = 0; i < count; ++i) order.push_back(static_cast<DeviceKind>(events[i].data.u32));
  EXPECT_THAT(order, ElementsAre(kGpu, kGpu, kCapability, kControl, kUvm, kUvm));
}

}  // namespace
}  // namespace tranche::mps
