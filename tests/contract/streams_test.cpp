// ListAndWatch. The facts are in docs/internals/kubelet-contract.md.
#include <gmock/gmock.h>

#include <algorithm>

#include "contract/expect.h"
#include "contract/node_under_test.h"

namespace tranche::contract {
namespace {

using kubelet::PluginState;
using sim::StreamMessage;

constexpr int kGpus = 2;
constexpr int kSlots = 4;

plan::Faults fault_on(int gpu) {
  return {.devices = {{gpu_uuid(gpu), {gpu::Cause::kXid, "Xid 79"}}}, .pools = {}};
}

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    node_.publish(plan_);
    ASSERT_OK(kubelet_->wait_for_healthy(kShared, kGpus * kSlots, kSoon));
    ASSERT_OK(node_.wait_until_watched());
  }

  std::vector<StreamMessage> messages_of(std::uint64_t stream) const {
    std::vector<StreamMessage> messages = kubelet_->messages();
    std::erase_if(messages, [=](const StreamMessage& m) { return m.stream != stream; });
    return messages;
  }
  static std::ptrdiff_t healthy_in(const StreamMessage& message) {
    return std::ranges::count(message.devices, true, &sim::Device::healthy);
  }

  os::Scratch dir_;
  plan::Plan plan_ = plan_of({shared_resource(kGpus, kSlots)});
  std::unique_ptr<sim::Kubelet> kubelet_ = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest node_{quick_settings(dir_.path())};
};

// Promise: kubelet/stream: The first message has the complete list, in the plan's order.
TEST_F(Streams, FirstMessageIsCompleteAndInTheOrderOfThePlan) {
  const std::vector<StreamMessage> messages = kubelet_->messages();
  ASSERT_FALSE(messages.empty());
  std::vector<sim::Device> expected;
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    for (int n = 0; n < kSlots; ++n) expected.push_back({.id = slot(gpu, n), .healthy = true, .numa_nodes = {gpu % 2}});
  }
  EXPECT_EQ(messages.front().devices, expected);
}

// Promise: kubelet/stream: Loss and recovery of health both reach kubelet.
TEST_F(Streams, HealthLossAndRecoveryBothArrive) {
  node_.publish(plan_, fault_on(1));
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, kSlots, kSoon));
  EXPECT_EQ(kubelet_->view(kShared).capacity, kGpus * kSlots);
  node_.publish(plan_);
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, kGpus * kSlots, kSoon));
  EXPECT_EQ(kubelet_->registrations().size(), 1U) << "health needs no new registration";
}

// Promise: kubelet/stream: Two open streams both receive every state.
TEST_F(Streams, TwoStreamsBothSeeEveryState) {
  ASSERT_VALUE(const std::uint64_t second, kubelet_->open_extra_stream(kShared));
  const std::uint64_t first = kubelet_->messages().front().stream;
  const auto both_see = [&](std::ptrdiff_t healthy) {
    for (const std::uint64_t stream : {first, second}) {
      ASSERT_OK(kubelet_->wait_for_message(
          [=](const StreamMessage& m) { return m.stream == stream && healthy_in(m) == healthy; }, kSoon));
    }
  };
  ASSERT_NO_FATAL_FAILURE(both_see(2 * kSlots));
  node_.publish(plan_, fault_on(0));
  ASSERT_NO_FATAL_FAILURE(both_see(kSlots));
  plan::Faults both = fault_on(0);
  both.devices.merge(fault_on(1).devices);
  node_.publish(plan_, both);
  ASSERT_NO_FATAL_FAILURE(both_see(0));
  ASSERT_OK(node_.wait_until_watched(kShared, 2));
  ASSERT_OK(kubelet_->close_extra_stream(second));
  ASSERT_OK(node_.wait_until_watched(kShared, 1));
}

// Promise: kubelet/stream: A new stream starts with the newest state.
TEST_F(Streams, ANewStreamStartsWithTheNewestState) {
  node_.publish(plan_, fault_on(0));
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, kSlots, kSoon));
  ASSERT_VALUE(const std::uint64_t extra, kubelet_->open_extra_stream(kShared));
  ASSERT_OK(kubelet_->wait_for_message([=](const StreamMessage& m) { return m.stream == extra; }, kSoon));
  EXPECT_EQ(healthy_in(messages_of(extra).front()), kSlots);
}

// Promise: kubelet/stream: A list equal to the last one is not sent.
TEST_F(Streams, AnEqualListIsNotSentAgain) {
  node_.publish(plan_);
  node_.publish(plan_);
  node_.publish(plan_, fault_on(0));
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, kSlots, kSoon));
  EXPECT_EQ(kubelet_->messages().size(), 2U);
}

// Promise: kubelet/stream: A list that kubelet refuses is a problem until a stream stays.
TEST_F(Streams, AListThatKubeletRefusesIsAProblemUntilAStreamStays) {
  node_.publish(plan_of({shared_resource(8, 16384)}));
  ASSERT_VALUE(const kubelet::PluginState refused, node_.wait_for_state(kShared, [](const kubelet::PluginState& s) {
    return s.problem.contains("ended its stream (the list has 131072 slots in ");
  }));
  EXPECT_FALSE(refused.registered);
  ASSERT_OK(kubelet_->wait_for_call(
      [](const sim::Call& c) {
        return c.method == sim::Call::Method::kListAndWatch && c.status == grpc::StatusCode::RESOURCE_EXHAUSTED;
      },
      kSoon));
  node_.publish(plan_);
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, kGpus * kSlots, kSoon));
  ASSERT_OK(node_.wait_until_watched());
}

// Lists far larger than what HTTP/2 takes ahead of its reader (64 KiB), so that a reader who stops reading is felt.
class SlowReader : public Streams {
 protected:
  static constexpr int kManyGpus = 40;
  static constexpr int kManySlots = 50;

  void publish_many(int faulty) {
    plan::Faults faults;
    for (int gpu = 0; gpu < faulty; ++gpu) faults.devices[gpu_uuid(gpu)].why = "Xid 79";
    node_.publish(large_, faults);
  }

  plan::Plan large_ = plan_of({shared_resource(kManyGpus, kManySlots)});
};

// Promise: kubelet/stream: A slow reader receives the newest state and no backlog.
TEST_F(SlowReader, GetsTheNewestStateAndNotABacklog) {
  kubelet_->pause_reading(kShared);
  const std::size_t before = kubelet_->messages().size();
  for (int faulty = 0; faulty <= 30; ++faulty) publish_many(faulty);
  kubelet_->resume_reading(kShared);
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, (kManyGpus - 30) * kManySlots, kSoon));
  // One the reader had asked for, one in flight, one newest; the other 28 were never sent.
  EXPECT_LE(kubelet_->messages().size() - before, 4U);
  EXPECT_EQ(kubelet_->registrations().size(), 1U);
}

// Promise: kubelet/stream: A stream whose reader cancels in mid-write is freed at once.
TEST_F(SlowReader, ThatCancelsInMidWriteIsGoneAtOnce) {
  kubelet_->pause_reading(kShared);
  for (int faulty = 0; faulty < 3; ++faulty) publish_many(faulty);
  ASSERT_OK(kubelet_->close_stream(kShared));
  ASSERT_OK(node_.wait_for_state(kShared, [](const kubelet::PluginState& s) { return s.watchers == 0; }));
  kubelet_->resume_reading(kShared);
  ASSERT_OK(kubelet_->wait_for_registration(kShared, kSoon, 1));
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, (kManyGpus - 2) * kManySlots, kSoon));
}

}  // namespace
}  // namespace tranche::contract
