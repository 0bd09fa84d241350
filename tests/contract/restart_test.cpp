// Restarts of kubelet and of ours. The facts are in docs/internals/kubelet-contract.md.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>

#include "contract/direct_client.h"
#include "contract/expect.h"
#include "contract/node_under_test.h"

namespace tranche::contract {
namespace {

using kubelet::PluginState;
using sim::Call;

class Restart : public testing::Test {
 protected:
  void publish_and_be_watched() {
    node_->publish(plan_);
    ASSERT_OK(kubelet_->wait_for_healthy(kShared, 8, kSoon));
    ASSERT_OK(node_->wait_until_watched());
  }
  // A second time, whatever ended the first.
  void registered_again() {
    ASSERT_OK(kubelet_->wait_for_registration(kShared, kSoon, 1));
    ASSERT_OK(kubelet_->wait_for_healthy(kShared, 8, kSoon));
    ASSERT_OK(node_->wait_until_watched());
  }
  // What the directory shows after kubelet was replaced, with the file system handing out the old inode number again:
  // the same inode under the same name, and only the events show it.
  void recreate_kubelet_socket_with_its_inode_number() {
    const std::string socket = dir_ / "kubelet.sock";
    const std::string aside = dir_ / "aside";
    struct stat before{};
    ASSERT_EQ(::stat(socket.c_str(), &before), 0);
    ASSERT_EQ(::link(socket.c_str(), aside.c_str()), 0);
    ASSERT_EQ(::unlink(socket.c_str()), 0);
    ASSERT_EQ(::rename(aside.c_str(), socket.c_str()), 0);
    struct stat after{};
    ASSERT_EQ(::stat(socket.c_str(), &after), 0);
    ASSERT_EQ(before.st_ino, after.st_ino);
  }

  os::Scratch dir_;
  plan::Plan plan_ = plan_of({shared_resource(2, 4)});
  std::unique_ptr<sim::Kubelet> kubelet_ = open_kubelet({.plugin_dir = dir_.path()});
  std::unique_ptr<NodeUnderTest> node_ = std::make_unique<NodeUnderTest>(quick_settings(dir_.path()));
};

// Promise: kubelet/restart: After a kubelet restart the devices are registered again.
TEST_F(Restart, OfKubeletWipesAllSocketsAndTheDevicesComeBack) {
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  ASSERT_OK(kubelet_->restart());
  registered_again();
}

// Promise: kubelet/restart: A new kubelet socket is noticed also when it has the old inode number.
TEST_F(Restart, OfKubeletIsNoticedAlsoWhenItsSocketHasTheSameInodeNumber) {
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  ASSERT_NO_FATAL_FAILURE(recreate_kubelet_socket_with_its_inode_number());
  registered_again();
}

// Promise: kubelet/restart: Earlier streams end before each new registration.
TEST_F(Restart, TheOldStreamIsFinishedBeforeTheNewRegistration) {
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  // Nothing is answered until the stream has ended: which of its two connections kubelet reads first is its own affair,
  // so the order in which it saw both ends would say nothing about ours.
  kubelet_->hang_registrations();
  ASSERT_NO_FATAL_FAILURE(recreate_kubelet_socket_with_its_inode_number());
  ASSERT_VALUE(const Call stream_end,
               kubelet_->wait_for_call([](const Call& c) { return c.method == Call::Method::kListAndWatch; }, kSoon));
  // Cancelled where the last list's write was not yet confirmed: nobody waits for a reader who may never read.
  EXPECT_THAT(stream_end.status, testing::AnyOf(grpc::StatusCode::OK, grpc::StatusCode::CANCELLED))
      << stream_end.message;
  kubelet_->release_registrations();
  registered_again();
}

// Promise: kubelet/restart: A stream lost while the socket exists leads to a new registration.
TEST_F(Restart, AStreamLostWhileOurSocketIsStillThereLeadsToRegisteringAgain) {
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  ASSERT_OK(kubelet_->close_stream(kShared));
  registered_again();
}

// Promise: kubelet/restart: The loss of one of two streams leads to a new registration.
TEST_F(Restart, TheLossOfOneOfTwoStreamsLeadsToRegisteringAgain) {
  // kubelet believes one stream only, and which one that is cannot be seen from our side.
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  ASSERT_VALUE([[maybe_unused]] const std::uint64_t extra, kubelet_->open_extra_stream(kShared));
  ASSERT_OK(node_->wait_until_watched(kShared, 2));
  ASSERT_OK(kubelet_->close_stream(kShared));
  registered_again();
}

// Promise: kubelet/restart: A deleted socket of ours is made again.
TEST_F(Restart, SurvivesSomebodyDeletingOurSocket) {
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  ASSERT_EQ(::unlink((dir_ / "nvidia-gpu.shared.sock").c_str()), 0);
  registered_again();
  EXPECT_TRUE(std::filesystem::is_socket(dir_ / "nvidia-gpu.shared.sock"));
}

// Promise: kubelet/restart: The plugin directory may be removed and made again.
TEST_F(Restart, SurvivesTheDirectoryItselfGoingAndComingBack) {
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  kubelet_->stop();
  // As `rm -r` until it is gone: a socket of ours may be made anew in the middle of it.
  std::error_code failed = std::make_error_code(std::errc::directory_not_empty);
  for (int i = 0; failed && i < 1000; ++i) std::filesystem::remove_all(dir_.path(), failed);
  ASSERT_FALSE(failed) << failed.message();
  ASSERT_OK(node_->wait_for_state(kShared, [](const kubelet::PluginState& s) {
    return !s.serving && s.problem.contains("cannot create a socket in");
  }));
  std::filesystem::create_directory(dir_.path());
  ASSERT_OK(kubelet_->start());
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_OK(node_->wait_until_watched());
}

// Promise: kubelet/restart: The agent waits for a kubelet that stays away.
TEST_F(Restart, AKubeletThatStaysAwayIsWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  kubelet_->stop();
  ASSERT_OK(node_->wait_for_state(
      kShared, [](const kubelet::PluginState& s) { return s.watchers == 0 && !s.registered && !s.problem.empty(); }));
  ASSERT_OK(kubelet_->start());
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_OK(node_->wait_until_watched());
}

// Promise: kubelet/restart: The same ids give the same grant after a restart of the agent.
TEST_F(Restart, OfOursGivesTheSameGrantForTheSameIds) {
  plan_ = plan_of({with_mps(shared_resource(2, 4))});
  const auto ask = [&](v1beta1::AllocateResponse& response) {
    return DirectClient(dir_ / "nvidia-gpu.shared.sock").allocate({{slot(1, 2), slot(1, 0)}}, response);
  };
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  v1beta1::AllocateResponse before;
  ASSERT_TRUE(ask(before).ok());
  node_.reset();
  node_ = std::make_unique<NodeUnderTest>(quick_settings(dir_.path()));
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  v1beta1::AllocateResponse after;
  ASSERT_TRUE(ask(after).ok());
  EXPECT_GT(before.container_responses(0).mounts_size(), 0) << "an MPS grant has an endpoint";
  EXPECT_EQ(in_fixed_order(before), in_fixed_order(after));
}

// Promise: kubelet/restart: A restarted kubelet replays its stored answer without asking.
TEST_F(Restart, OfKubeletReplaysTheOldAnswerWithoutAskingUs) {
  ASSERT_NO_FATAL_FAILURE(publish_and_be_watched());
  const sim::Admission admission = kubelet_->admit(sim::one_container_pod("a", kShared, 1));
  ASSERT_TRUE(admission.admitted) << admission.message;
  ASSERT_OK(kubelet_->restart());
  ASSERT_OK(kubelet_->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_VALUE(const sim::ContainerGrant replayed, kubelet_->start_container("default/a", "main"));
  EXPECT_EQ(replayed, admission.containers.at(0));
  ASSERT_VALUE(const kubelet::PluginState state, node_->wait_until_watched());
  EXPECT_EQ(state.allocations, 1U);
}

// Promise: kubelet/restart: The agent recovers when an old kubelet disconnects the new client.
TEST(RestartOfAnOldKubelet, WhoseOldStreamsDisconnectTheNewClientIsOvercome) {
  os::Scratch dir;
  const auto kubelet = open_kubelet({.plugin_dir = dir.path(), .old_stream_end_disconnects_current = true});
  const plan::Plan plan = plan_of({shared_resource(2, 4)});
  auto old_one = std::make_unique<NodeUnderTest>(quick_settings(dir.path()));
  old_one->publish(plan);
  ASSERT_OK(old_one->wait_until_watched());
  NodeUnderTest new_one(quick_settings(dir.path()));
  new_one.publish(plan);
  ASSERT_OK(kubelet->wait_for_registration(kShared, kSoon, 1));
  old_one.reset();
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_OK(new_one.wait_until_watched());
  EXPECT_TRUE(kubelet->view(kShared).watching);
}

// The older instance ends its streams when it sees its socket taken, and the newer registers a moment after that:
// kubelet never takes the older one's end for the newer one's.
// Promise: kubelet/restart: A handover between live instances needs one registration with an old kubelet.
TEST(RestartOfAnOldKubelet, AHandoverBetweenLiveInstancesNeedsOneRegistration) {
  os::Scratch dir;
  const auto kubelet = open_kubelet({.plugin_dir = dir.path(), .old_stream_end_disconnects_current = true});
  const plan::Plan plan = plan_of({shared_resource(2, 4)});
  NodeUnderTest old_one(quick_settings(dir.path()));
  old_one.publish(plan);
  ASSERT_OK(old_one.wait_until_watched());
  // The older one is slow to see it: busy until the newer one serves.
  std::promise<void> newer_serves;
  old_one.loop().post([served = newer_serves.get_future().share()] { served.wait(); });
  kubelet::PluginHostSettings patient = quick_settings(dir.path());
  patient.handover = std::chrono::seconds(2);
  NodeUnderTest new_one(patient);
  new_one.publish(plan);
  ASSERT_OK(new_one.wait_for_state(kShared, [](const kubelet::PluginState& s) { return s.serving; }));
  newer_serves.set_value();
  ASSERT_OK(kubelet->wait_for_registration(kShared, kSoon, 1));
  std::vector<Call::Method> ended;  // in the order of their end
  for (const Call& call : kubelet->calls()) ended.push_back(call.method);
  std::erase(ended, Call::Method::kGetOptions);
  EXPECT_THAT(ended,
              testing::ElementsAre(Call::Method::kRegister, Call::Method::kListAndWatch, Call::Method::kRegister))
      << "it registered while the older one still had its stream";
  ASSERT_OK(new_one.wait_until_watched());
  old_one.stop_host();
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  EXPECT_EQ(kubelet->registrations().size(), 2U) << "one registration each";
}

}  // namespace
}  // namespace tranche::contract
