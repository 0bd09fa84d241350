// Odd clients, stopping, and PodResources. The facts are in docs/internals/kubelet-contract.md.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>

#include "contract/direct_client.h"
#include "contract/expect.h"
#include "contract/node_under_test.h"
#include "kubelet/pod_resources.h"

namespace tranche::contract {
namespace {

using kubelet::PluginState;
using testing::HasSubstr;

// Measured 1-2 ms when streams are finished first and the server's whole grace when they are not: with this one a turn
// of the loop that waits for it fails (NodeUnderTest::on_loop).
constexpr Duration kGrace = std::chrono::hours(1);

class Stopping : public testing::Test {
 protected:
  static kubelet::PluginHostSettings patient_settings(const std::string& dir) {
    kubelet::PluginHostSettings settings = quick_settings(dir);
    settings.stop_within = kGrace;
    return settings;
  }
  void be_watched() {
    node_.publish(plan_);
    ASSERT_OK(kubelet_->wait_for_healthy(kShared, 8, kSoon));
    ASSERT_OK(node_.wait_until_watched());
  }

  os::Scratch dir_;
  plan::Plan plan_ = plan_of({shared_resource(2, 4)});
  std::unique_ptr<sim::Kubelet> kubelet_ = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest node_{patient_settings(dir_.path())};
};

// Promise: kubelet/stop: The agent stops promptly with open streams and removes its sockets.
TEST_F(Stopping, IsPromptWithOpenStreamsAndRemovesOurSocket) {
  ASSERT_NO_FATAL_FAILURE(be_watched());
  ASSERT_VALUE([[maybe_unused]] const std::uint64_t extra, kubelet_->open_extra_stream(kShared));
  ASSERT_OK(node_.wait_until_watched(kShared, 2));
  node_.stop_host();
  EXPECT_FALSE(std::filesystem::exists(dir_ / "nvidia-gpu.shared.sock"));
  ASSERT_OK(kubelet_->wait_for_devices(kShared, [](const sim::ResourceView& v) { return !v.watching; }, kSoon));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "kubelet.sock")) << "that one is not ours";
}

// Promise: kubelet/stop: The agent stops promptly when a reader does not read.
TEST_F(Stopping, IsPromptWithAReaderWhoDoesNotRead) {
  ASSERT_NO_FATAL_FAILURE(be_watched());
  kubelet_->pause_reading(kShared);
  const plan::Plan large = plan_of({shared_resource(40, 50)});
  for (int faulty = 0; faulty < 4; ++faulty) {
    node_.publish(large, {.devices = {{gpu_uuid(faulty), {gpu::Cause::kXid, "Xid 79"}}}, .pools = {}});
  }
  node_.stop_host();
}

// Promise: kubelet/stop: The agent stops promptly while a registration hangs.
TEST_F(Stopping, IsPromptWhileKubeletHangsInRegister) {
  kubelet_->hang_registrations();
  node_.publish(plan_);
  ASSERT_OK(node_.wait_for_state(kShared, [](const kubelet::PluginState& s) { return s.serving; }));
  node_.stop_host();
}

// Promise: kubelet/stop: A stopped agent leaves no file in the plugin directory.
TEST_F(Stopping, LeavesNothingBehindInTheDirectory) {
  ASSERT_NO_FATAL_FAILURE(be_watched());
  node_.stop_host();
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("kubelet"));
  }
}

// Promise: kubelet/stop: An old kubelet's socket path as `:authority` is accepted.
TEST_F(Stopping, AnOldKubeletsPathAsAuthorityIsAccepted) {
  ASSERT_NO_FATAL_FAILURE(be_watched());
  const std::string socket = dir_ / "nvidia-gpu.shared.sock";
  v1beta1::DevicePluginOptions options;
  for (const std::string& authority : {std::string("localhost"), socket, std::string("unix:") + socket}) {
    const grpc::Status status = DirectClient(socket, authority).options(options);
    EXPECT_TRUE(status.ok()) << authority << ": " << status.error_message();
  }
}

// Promise: kubelet/stop: An old kubelet's socket path as `:authority` is accepted.
TEST(OldKubelet, ThatSendsThePathAsAuthorityIsServed) {
  os::Scratch dir;
  const auto kubelet = open_kubelet({.plugin_dir = dir.path(), .authority = "path"});
  NodeUnderTest node(quick_settings(dir.path()));
  node.publish(plan_of({shared_resource(2, 4)}));
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  EXPECT_TRUE(kubelet->admit(sim::one_container_pod("a", kShared, 1)).admitted);
}

// Promise: kubelet/pod-resources: PodResources shows which container holds which slots.
TEST(PodResources, ReportWhichContainerHoldsWhichSlots) {
  os::Scratch dir;
  const auto kubelet = open_kubelet({.plugin_dir = dir.path(), .pod_resources_socket = dir / "pods.sock"});
  NodeUnderTest node(quick_settings(dir.path()));
  node.publish(plan_of({shared_resource(2, 4)}));
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  const sim::Admission admission = kubelet->admit(sim::one_container_pod("team-a/train", kShared, 2));
  ASSERT_TRUE(admission.admitted) << admission.message;
  ASSERT_VALUE(const std::vector<grants::Held> held, kubelet::list_pod_resources(dir / "pods.sock", kSoon));
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].container, "main");
  EXPECT_EQ(held[0].resource, kShared);
  EXPECT_THAT(held[0].slots, testing::UnorderedElementsAreArray(admission.containers[0].slots.at(kShared)));
}

// Promise: kubelet/pod-resources: A missing PodResources socket is reported and retried.
TEST(PodResources, AnAbsentSocketIsSaidSoAndRetriable) {
  os::Scratch dir;
  const auto answer = kubelet::list_pod_resources(dir / "pods.sock", kSoon);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().kind, Kind::kUnavailable);
  EXPECT_EQ(answer.error().where, dir / "pods.sock");
}

}  // namespace
}  // namespace tranche::contract
