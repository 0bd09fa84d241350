// Allocate, GetPreferredAllocation, PreStartContainer. The facts are in docs/internals/kubelet-contract.md.
#include <gmock/gmock.h>

#include <algorithm>
#include <future>
#include <thread>

#include "contract/direct_client.h"
#include "contract/expect.h"
#include "contract/node_under_test.h"

namespace tranche::contract {
namespace {

using grpc::StatusCode;
using kubelet::PluginState;
using testing::HasSubstr;

class Allocation : public testing::Test {
 protected:
  void SetUp() override {
    node_.publish(plan_);
    ASSERT_OK(kubelet_->wait_for_healthy(kShared, 8, kSoon));
  }
  std::string our_socket() const { return dir_ / "nvidia-gpu.shared.sock"; }

  os::Scratch dir_;
  plan::Plan plan_ = plan_of({with_mps(shared_resource(2, 4))});
  std::unique_ptr<sim::Kubelet> kubelet_ = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest node_{quick_settings(dir_.path())};
};

// Promise: kubelet/allocate: The grant reaches the container whole.
TEST_F(Allocation, TheGrantReachesTheContainerWhole) {
  const sim::Admission admission = kubelet_->admit(sim::one_container_pod("a", kShared, 2));
  ASSERT_TRUE(admission.admitted) << admission.message;
  const sim::ContainerGrant& grant = admission.containers.at(0);
  const std::vector<std::string>& ids = grant.slots.at(kShared);
  ASSERT_EQ(ids.size(), 2U);

  PlanAnswers answers;  // what the plan gives for these ids, asked without a socket
  answers.set(plan_, {});
  ASSERT_VALUE(const grants::Grant expected, answers.allocate(kShared, ids));
  EXPECT_EQ(grant.envs, expected.envs);
  EXPECT_EQ(grant.annotations, expected.annotations);
  ASSERT_EQ(grant.mounts.size(), expected.mounts.size());
  for (std::size_t i = 0; i < grant.mounts.size(); ++i) {
    EXPECT_EQ(grant.mounts[i].container_path, expected.mounts[i].container_path);
    EXPECT_EQ(grant.mounts[i].host_path, expected.mounts[i].host_path);
    EXPECT_EQ(grant.mounts[i].read_only, expected.mounts[i].read_only);
  }
  ASSERT_EQ(grant.devices.size(), expected.device_nodes.size());
  for (std::size_t i = 0; i < grant.devices.size(); ++i) {
    EXPECT_EQ(grant.devices[i].host_path, expected.device_nodes[i].host_path);
    EXPECT_EQ(grant.devices[i].permissions, "rw");
  }
  ASSERT_OK(node_.wait_for_state(kShared,
                                 [](const kubelet::PluginState& s) { return s.allocations == 1 && s.refused == 0; }));
}

// Promise: kubelet/allocate: An unknown id is refused by name.
TEST_F(Allocation, AnUnknownIdIsNotFoundAndNamed) {
  const grpc::Status status = DirectClient(our_socket()).allocate({"GPU-nobody::0"});
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("GPU-nobody::0"));
  ASSERT_OK(node_.wait_for_state(kShared,
                                 [](const kubelet::PluginState& s) { return s.refused == 1 && s.allocations == 0; }));
}

// Promise: kubelet/allocate: An unhealthy slot is refused with the reason.
TEST_F(Allocation, AnUnhealthySlotIsUnavailableWithTheReason) {
  node_.publish(plan_, {.devices = {{gpu_uuid(1), {gpu::Cause::kXid, "fell off the bus (Xid 79)"}}}, .pools = {}});
  DirectClient client(our_socket());
  const grpc::Status status = client.allocate({slot(1, 0)});
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("fell off the bus (Xid 79)"));
  EXPECT_TRUE(client.allocate({slot(0, 0)}).ok()) << "the other GPU is fine";
}

// Promise: kubelet/allocate: An id given twice is refused.
TEST_F(Allocation, ADuplicateIdIsRefused) {
  const grpc::Status status = DirectClient(our_socket()).allocate({slot(0, 1), slot(0, 1)});
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr(slot(0, 1)));
}

// Promise: kubelet/allocate: MPS slots on two GPUs are refused and both GPUs are named.
TEST_F(Allocation, SlotsOnTwoGpusAreRefusedNamingBoth) {
  const grpc::Status status = DirectClient(our_socket()).allocate({slot(0, 0), slot(1, 0)});
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr(gpu_uuid(0)));
  EXPECT_THAT(status.error_message(), HasSubstr(gpu_uuid(1)));
}

// Promise: kubelet/allocate: The text of a refusal reaches the pod's status.
TEST_F(Allocation, KubeletPutsOurWordsIntoThePodsStatus) {
  // Five slots fit on no GPU of four: kubelet splits them, and the pod says why that cannot be.
  const sim::Admission admission = kubelet_->admit(sim::one_container_pod("wide", kShared, 5));
  EXPECT_FALSE(admission.admitted);
  EXPECT_EQ(admission.reason, "UnexpectedAdmissionError");
  EXPECT_THAT(admission.message, HasSubstr("one CUDA process can use MPS on one of them only"));
  EXPECT_EQ(kubelet_->view(kShared).allocated, std::vector<std::string>{});
}

// Promise: kubelet/allocate: Several containers in one call are answered in order.
TEST_F(Allocation, SeveralContainersInOneCallAreAnsweredInOrder) {
  v1beta1::AllocateResponse response;
  ASSERT_TRUE(DirectClient(our_socket()).allocate({{slot(1, 0)}, {slot(0, 3), slot(0, 2)}}, response).ok());
  ASSERT_EQ(response.container_responses_size(), 2);
  EXPECT_EQ(response.container_responses(0).envs().at("NVIDIA_VISIBLE_DEVICES"), gpu_uuid(1));
  EXPECT_EQ(response.container_responses(1).envs().at("NVIDIA_VISIBLE_DEVICES"), gpu_uuid(0));
  ASSERT_OK(node_.wait_for_state(kShared, [](const kubelet::PluginState& s) { return s.allocations == 2; }));
  const grpc::Status second_fails = DirectClient(our_socket()).allocate({{slot(1, 0)}, {"nobody"}}, response);
  EXPECT_EQ(second_fails.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(second_fails.error_message(), HasSubstr("container 2 of 2"));
  EXPECT_THAT(second_fails.error_message(), HasSubstr("nobody"));
  const grpc::Status both_fail = DirectClient(our_socket()).allocate({{"no one"}, {"nobody"}}, response);
  EXPECT_THAT(both_fail.error_message(), HasSubstr("container 1 of 2")) << "the first failure is the answer";
}

// Promise: kubelet/allocate: Allocate answers while the event loop is blocked.
TEST_F(Allocation, IsAnsweredWhileTheLoopIsBlocked) {
  std::promise<void> blocked;
  std::promise<void> release;
  node_.loop().post([&] {
    blocked.set_value();
    release.get_future().wait();
  });
  blocked.get_future().wait();
  DirectClient client(our_socket());  // its connection, too, is accepted without the loop
  const grpc::Status allocated = client.allocate({slot(0, 0)});
  Ids chosen;
  const grpc::Status preferred = client.prefer({slot(0, 0), slot(0, 1)}, {}, 1, chosen);
  v1beta1::DevicePluginOptions options;
  const grpc::Status asked = client.options(options);
  release.set_value();
  EXPECT_TRUE(allocated.ok()) << allocated.error_message();
  EXPECT_TRUE(preferred.ok()) << preferred.error_message();
  EXPECT_TRUE(asked.ok()) << asked.error_message();
}

// Promise: kubelet/allocate: A preference honors required ids, the size and availability.
TEST_F(Allocation, PreferenceHonoursMustIncludeSizeAndAvailability) {
  const Ids available = {slot(0, 0), slot(0, 3), slot(1, 1), slot(1, 2), slot(1, 3)};
  const Ids must = {slot(0, 3)};
  Ids chosen;
  ASSERT_TRUE(DirectClient(our_socket()).prefer(available, must, 2, chosen).ok());
  ASSERT_EQ(chosen.size(), 2U);
  EXPECT_THAT(chosen, testing::Contains(slot(0, 3)));
  EXPECT_THAT(available, testing::IsSupersetOf(chosen));
  EXPECT_THAT(chosen, testing::UnorderedElementsAre(slot(0, 0), slot(0, 3))) << "on the same GPU while it fits";
}

// Promise: kubelet/allocate: Preferences of several containers are independent.
TEST_F(Allocation, PreferencesOfSeveralContainersAreIndependent) {
  v1beta1::PreferredAllocationRequest request;
  for (const int size : {1, 3}) {
    auto& ask = *request.add_container_requests();
    for (int n = 0; n < 4; ++n) ask.add_available_deviceids(slot(1, n));
    ask.set_allocation_size(size);
  }
  v1beta1::PreferredAllocationResponse response;
  ASSERT_TRUE(DirectClient(our_socket()).prefer(request, response).ok());
  ASSERT_EQ(response.container_responses_size(), 2);
  EXPECT_THAT(response.container_responses(0).deviceids(), testing::ElementsAre(slot(1, 0)));
  EXPECT_THAT(response.container_responses(1).deviceids(), testing::ElementsAre(slot(1, 0), slot(1, 1), slot(1, 2)));

  request.mutable_container_requests(1)->set_allocation_size(5);
  const grpc::Status refused = DirectClient(our_socket()).prefer(request, response);
  EXPECT_THAT(refused.error_message(), HasSubstr("container 2 of 2"));
}

// Promise: kubelet/allocate: A preference that cannot be met is an error.
TEST_F(Allocation, APreferenceThatCannotBeIsAnErrorAndNotAGuess) {
  DirectClient client(our_socket());
  Ids chosen;
  EXPECT_FALSE(client.prefer({slot(0, 0)}, {}, 2, chosen).ok());
  EXPECT_EQ(client.prefer({slot(0, 0)}, {}, -1, chosen).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(chosen.empty());
}

// Promise: kubelet/allocate: PreStartContainer succeeds.
TEST_F(Allocation, PreStartContainerSucceeds) {
  EXPECT_TRUE(DirectClient(our_socket()).pre_start({slot(0, 0)}).ok());
}

// Promise: kubelet/allocate: Questions with every id of the longest list are answered, several at a time.
TEST_F(Allocation, QuestionsWithEveryIdOfTheLongestListAreAnswered) {
  constexpr int kMany = 7384;  // of 8 GPUs: plan/make_plan.cpp
  node_.publish(plan_of({shared_resource(8, kMany)}));
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, 8 * kMany, kSoon));
  const sim::Admission admission = kubelet_->admit(sim::one_container_pod("a", kShared, 2000));
  EXPECT_TRUE(admission.admitted) << admission.message;
  Ids all;
  for (int gpu = 0; gpu < 8; ++gpu)
    for (int n = 0; n < kMany; ++n) all.push_back(slot(gpu, n));
  std::vector<std::future<grpc::Status>> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.push_back(std::async(std::launch::async, [&] {
      Ids chosen;
      return DirectClient(our_socket()).prefer(all, {}, 1, chosen);
    }));
  for (auto& caller : callers) {
    const grpc::Status status = caller.get();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

// Promise: kubelet/allocate: Concurrent calls are all answered while plans change.
TEST_F(Allocation, ManyAtOnceWhilePlansAreSwappedAreAllAnswered) {
  constexpr int kCallers = 4;
  constexpr int kCalls = 50;
  std::vector<std::future<int>> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.push_back(std::async(std::launch::async, [&, caller] {
      DirectClient client(our_socket());
      int answered = 0;
      for (int i = 0; i < kCalls; ++i) answered += client.allocate({slot(0, caller)}).ok() ? 1 : 0;
      return answered;
    }));
  }
  for (int i = 0; i < 40; ++i) {
    node_.publish(plan_, i % 2 == 0
                             ? plan::Faults{.devices = {{gpu_uuid(1), {gpu::Cause::kXid, "flicker"}}}, .pools = {}}
                             : plan::Faults{});
  }
  for (auto& caller : callers) EXPECT_EQ(caller.get(), kCalls);
  ASSERT_OK(
      node_.wait_for_state(kShared, [](const kubelet::PluginState& s) { return s.allocations == kCallers * kCalls; }));
}

}  // namespace
}  // namespace tranche::contract
