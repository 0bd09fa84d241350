// How a resource comes to be known by kubelet. The facts are in docs/internals/kubelet-contract.md.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "contract/expect.h"
#include "contract/foreign_plugin.h"
#include "contract/node_under_test.h"

namespace tranche::contract {
namespace {

using kubelet::PluginState;
using sim::Call;
using testing::HasSubstr;

class Registering : public testing::Test {
 protected:
  std::string our_socket() const { return dir_ / "nvidia-gpu.shared.sock"; }

  os::Scratch dir_;
  plan::Plan plan_ = plan_of({shared_resource(2, 4)});
};

std::ptrdiff_t position(const std::vector<Call>& calls, Call::Method method) {
  return std::ranges::find(calls, method, &Call::method) - calls.begin();
}

// Promise: kubelet/register: Registration starts after the endpoint serves and answers options.
TEST_F(Registering, ServesFirstAndAnswersOptionsBeforeRegisterReturns) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_);
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  // Calls are recorded in the order of their end: kubelet had its options before it answered Register.
  ASSERT_OK(kubelet->wait_for_call([](const Call& call) { return call.method == Call::Method::kRegister; }, kSoon));
  const std::vector<Call> calls = kubelet->calls();
  EXPECT_LT(position(calls, Call::Method::kGetOptions), position(calls, Call::Method::kRegister));
}

// Promise: kubelet/register: The request and GetDevicePluginOptions carry the same options.
TEST_F(Registering, SaysItsVersionItsSocketNameAndTheSameOptionsTwice) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_);
  ASSERT_VALUE(const sim::Registration seen, kubelet->wait_for_registration(kShared, kSoon));
  EXPECT_EQ(seen.version, "v1beta1");
  EXPECT_EQ(seen.endpoint, "nvidia-gpu.shared.sock");
  EXPECT_EQ(seen.in_request, seen.answered);
  EXPECT_EQ(seen.answered, (sim::PluginOptions{.pre_start_required = false, .preferred_allocation = true}));
}

// Promise: kubelet/register: Each resource has its own socket, under NVIDIA's name.
TEST_F(Registering, EveryResourceHasASocketOfItsOwn) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_of({shared_resource(1, 4), shared_resource(1, 2, "nvidia.com/mig-1g.5gb")}));
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 4, kSoon));
  ASSERT_OK(kubelet->wait_for_healthy("nvidia.com/mig-1g.5gb", 2, kSoon));
  EXPECT_EQ(kubelet->view(kShared).endpoint, "nvidia-gpu.shared.sock");
  EXPECT_EQ(kubelet->view("nvidia.com/mig-1g.5gb").endpoint, "nvidia-mig-1g.5gb.sock");
}

// Promise: kubelet/register: An agent that starts before kubelet reports it and registers later.
TEST_F(Registering, WaitsForAnAbsentKubeletAndSaysSo) {
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_);
  ASSERT_VALUE(const kubelet::PluginState waiting, node.wait_for_state(kShared, [](const kubelet::PluginState& s) {
    return s.serving && !s.problem.empty();
  }));
  EXPECT_FALSE(waiting.registered);
  EXPECT_THAT(waiting.problem, HasSubstr("kubelet is not there"));
  EXPECT_THAT(waiting.problem, HasSubstr(dir_ / "kubelet.sock"));
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_OK(node.wait_until_watched());
}

// Promise: kubelet/register: `--kubelet-socket` may name a different directory.
TEST_F(Registering, FindsKubeletInAnotherDirectory) {
  os::Scratch other;
  kubelet::PluginHostSettings settings = quick_settings(dir_.path());
  settings.kubelet_socket = other / "kubelet.sock";
  NodeUnderTest node(settings);
  node.publish(plan_);
  const auto kubelet = open_kubelet({.plugin_dir = other.path(), .dial_deadline = std::chrono::milliseconds(100)});
  // This one looks for the endpoint in its own directory, where it is not: what counts is that it was asked.
  ASSERT_OK(kubelet->wait_for_call([](const Call& call) { return call.method == Call::Method::kRegister; }, kSoon));
}

// Promise: kubelet/register: A refused registration is repeated with back-off and shows kubelet's text.
TEST_F(Registering, TriesAgainAfterARefusalAndShowsKubeletsWords) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  kubelet->refuse_next_registrations(3, 12, "API version v1beta1 is not supported");
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_);
  ASSERT_VALUE(const kubelet::PluginState refused,
               node.wait_for_state(kShared, [](const kubelet::PluginState& s) { return !s.problem.empty(); }));
  EXPECT_THAT(refused.problem, HasSubstr("kubelet refused to register nvidia.com/gpu.shared"));
  EXPECT_THAT(refused.problem, HasSubstr("API version v1beta1 is not supported"));
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_OK(node.wait_until_watched());
}

// Promise: kubelet/register: A resource name that kubelet refuses stays visible in the status.
TEST_F(Registering, ANameThatKubeletDoesNotTakeStaysVisible) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_of({shared_resource(1, 2, "nvidia.com/gpu_!")}));
  ASSERT_VALUE(const kubelet::PluginState refused,
               node.wait_for_state("nvidia.com/gpu_!", [](const kubelet::PluginState& s) {
                 return s.problem.contains("kubelet refused to register");
               }));
  EXPECT_FALSE(refused.registered);
  EXPECT_TRUE(refused.serving);
}

// Promise: kubelet/register: A stream that kubelet ends at once is a problem over all further registrations.
TEST_F(Registering, AKubeletThatEndsEveryStreamAtOnceIsAProblemThatStays) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  kubelet->end_next_streams(1000);
  kubelet::PluginHostSettings settings = quick_settings(dir_.path());
  settings.lost_grace = std::chrono::milliseconds(20);
  settings.kept_after = std::chrono::hours(1);
  NodeUnderTest node(settings);
  node.publish(plan_);
  ASSERT_OK(node.wait_for_state(kShared, [](const kubelet::PluginState& s) { return !s.problem.empty(); }));
  ASSERT_VALUE(const kubelet::PluginState later,
               node.wait_for_state(kShared, [](const kubelet::PluginState& s) { return s.registrations >= 4; }));
  EXPECT_THAT(later.problem, HasSubstr("kubelet accepted nvidia.com/gpu.shared and ended its stream"));
  EXPECT_FALSE(later.registered);
}

// Promise: kubelet/register: A stream that stays ends the problem of streams that ended at once.
TEST_F(Registering, AStreamThatStaysIsARecovery) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  kubelet->end_next_streams(2);
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_);
  ASSERT_OK(node.wait_for_state(kShared,
                                [](const kubelet::PluginState& s) { return s.problem.contains("ended its stream"); }));
  ASSERT_OK(node.wait_for_state(kShared, [](const kubelet::PluginState& s) {
    return s.registrations == 3 && s.registered && s.watchers == 1 && s.problem.empty();
  }));
}

// Promise: kubelet/register: A registration that hangs is given up after a deadline and repeated.
TEST_F(Registering, AHangingKubeletIsGivenUpOnAndAskedAgain) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  kubelet->hang_registrations();
  kubelet::PluginHostSettings settings = quick_settings(dir_.path());
  settings.registration_deadline = std::chrono::seconds(1);
  NodeUnderTest node(settings);
  node.publish(plan_);
  ASSERT_OK(node.wait_for_state(
      kShared, [](const kubelet::PluginState& s) { return s.problem.contains("did not answer in time"); }));
  kubelet->release_registrations();
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  // Once, or twice: kubelet also goes on with the registration that was given up.
  ASSERT_OK(node.wait_for_state(kShared, [](const kubelet::PluginState& s) {
    return s.serving && s.registered && s.watchers > 0 && s.problem.empty();
  }));
}

// Promise: kubelet/socket: A socket file left by a crash is replaced.
TEST_F(Registering, ASocketThatACrashLeftBehindIsReplaced) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  const ForeignPlugin dead(our_socket(), /*listening=*/false);
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_);
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_VALUE(const kubelet::PluginState state, node.wait_until_watched());
  EXPECT_EQ(state.note, "");
}

// Promise: kubelet/socket: The agent takes a socket over from a foreign process and names it.
TEST_F(Registering, TakesOverFromAForeignProcessAndNamesIt) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  const ForeignPlugin foreign(our_socket(), /*listening=*/true);
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_);
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_VALUE(const kubelet::PluginState state, node.wait_until_watched());
  EXPECT_THAT(state.note, HasSubstr("over from process " + std::to_string(::getpid())));
}

// Promise: kubelet/socket: The older instance registers again when the newer one is gone.
TEST_F(Registering, StandsBackForALiveNewcomerAndReturnsWhenItIsGone) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_);
  ASSERT_OK(node.wait_until_watched());
  ForeignPlugin newcomer(our_socket(), /*listening=*/true);
  ASSERT_VALUE(const kubelet::PluginState displaced,
               node.wait_for_state(kShared, [](const kubelet::PluginState& s) { return !s.serving; }));
  EXPECT_THAT(displaced.problem, HasSubstr("serves nvidia.com/gpu.shared now"));
  EXPECT_FALSE(displaced.registered);
  newcomer.leave_without_cleaning_up();  // no event reports this: the audit finds it
  ASSERT_OK(kubelet->wait_for_registration(kShared, kSoon, 1));
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_OK(node.wait_until_watched());
}

// Promise: kubelet/socket: In a rolling update the older instance ends its streams and leaves the new socket alone.
TEST_F(Registering, ARollingUpdateHandsOverAndTheOldInstanceDoesNotFightBack) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest old_one(quick_settings(dir_.path()));
  old_one.publish(plan_);
  ASSERT_OK(old_one.wait_until_watched());
  NodeUnderTest new_one(quick_settings(dir_.path()));
  new_one.publish(plan_);
  ASSERT_OK(kubelet->wait_for_registration(kShared, kSoon, 1));
  ASSERT_OK(new_one.wait_until_watched());
  ASSERT_OK(
      old_one.wait_for_state(kShared, [](const kubelet::PluginState& s) { return !s.serving && s.watchers == 0; }));
  old_one.stop_host();
  EXPECT_TRUE(std::filesystem::exists(our_socket())) << "the old instance's farewell took the new one's socket down";
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  ASSERT_OK(new_one.wait_until_watched());
  EXPECT_EQ(kubelet->registrations().size(), 2U) << "one registration each";
}

// Promise: kubelet/register: With an empty `--kubelet-socket` the agent serves and does not register.
TEST_F(Registering, ServesWithoutRegisteringWhenConfigured) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  kubelet::PluginHostSettings settings = quick_settings(dir_.path());
  settings.register_with_kubelet = false;
  NodeUnderTest node(settings);
  node.publish(plan_);
  ASSERT_OK(node.wait_for_state(kShared, [](const kubelet::PluginState& s) { return s.serving; }));
  ASSERT_VALUE(const kubelet::PluginState state,
               node.wait_for_state(kShared, [](const kubelet::PluginState&) { return true; }));
  EXPECT_FALSE(state.registered);
  EXPECT_EQ(state.problem, "");
  NodeUnderTest registering(quick_settings(dir_.path()));  // later, and of another resource
  registering.publish(plan_of({shared_resource(1, 2, kWhole)}));
  ASSERT_OK(kubelet->wait_for_registration(kWhole, kSoon));
  EXPECT_EQ(kubelet->registrations().size(), 1U);
}

// Promise: kubelet/register: A withdrawn resource ends its stream and removes its socket.
TEST_F(Registering, AWithdrawnResourceEndsItsStreamAndLeavesNoSocket) {
  const auto kubelet = open_kubelet({.plugin_dir = dir_.path()});
  NodeUnderTest node(quick_settings(dir_.path()));
  node.publish(plan_);
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
  node.publish(plan_of({}));
  ASSERT_OK(kubelet->wait_for_devices(kShared, [](const sim::ResourceView& v) { return !v.watching; }, kSoon));
  EXPECT_FALSE(std::filesystem::exists(our_socket()));
  EXPECT_EQ(kubelet->view(kShared).allocatable, 0U);
  node.publish(plan_);
  ASSERT_OK(kubelet->wait_for_healthy(kShared, 8, kSoon));
}

// Promise: kubelet/register: A missing plugin directory fails at once and is named.
TEST_F(Registering, AMissingDirectoryIsSaidAtOnce) {
  auto loop = os::Loop::open();
  ASSERT_OK(loop);
  PlanAnswers answers;
  kubelet::PluginHost host(**loop, quick_settings(dir_ / "absent"), answers, [] {});
  const auto opened = host.open();
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().kind, Kind::kNotFound);
  EXPECT_EQ(opened.error().where, dir_ / "absent");
}

// Promise: kubelet/register: A socket path above 107 characters is refused with its reason.
TEST_F(Registering, ADirectoryNameTooLongForASocketIsSaidInWords) {
  const std::string deep = dir_ / std::string(100, 'd');
  std::filesystem::create_directory(deep);
  NodeUnderTest node(quick_settings(deep));
  node.publish(plan_);
  ASSERT_VALUE(const kubelet::PluginState state,
               node.wait_for_state(kShared, [](const kubelet::PluginState& s) { return !s.problem.empty(); }));
  EXPECT_FALSE(state.serving);
  EXPECT_THAT(state.problem, HasSubstr("longer than the 107 bytes that the kernel accepts"));
}

}  // namespace
}  // namespace tranche::contract
