// Each fact of kubelet's device manager that the stand-in imitates, tested with a tiny plugin over real sockets.
#include "standins/kubelet/kubelet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "podresources/v1/api.grpc.pb.h"
#include "standins/kubelet/tiny_plugin.h"

namespace tranche::sim {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Method = Call::Method;

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr Duration kSoon = 60s;

class KubeletDouble : public testing::Test {
 protected:
  KubeletDouble() {
    char name[] = "/tmp/sk-XXXXXX";
    dir_ = ::mkdtemp(name);
    settings_.plugin_dir = dir_ + "/dp";
  }
  ~KubeletDouble() override {
    kubelet_.reset();
    std::filesystem::remove_all(dir_);
  }

  void start() {
    auto opened = Kubelet::open(settings_);
    ASSERT_TRUE(opened) << to_string(opened.error());
    kubelet_ = std::move(*opened);
  }

  std::unique_ptr<TinyPlugin> plugin(const std::string& endpoint, std::vector<TinyDevice> devices) const {
    auto result = std::make_unique<TinyPlugin>(settings_.plugin_dir, endpoint);
    result->set_devices(std::move(devices));
    return result;
  }

  // Serving, registered and its devices known.
  std::unique_ptr<TinyPlugin> registered(const std::string& endpoint, std::vector<TinyDevice> devices) {
    auto result = plugin(endpoint, std::move(devices));
    join(*result);
    return result;
  }

  void join(TinyPlugin& joining) {
    joining.serve();
    const auto before = kubelet_->messages().size();
    EXPECT_TRUE(joining.register_as(kGpu).ok());
    EXPECT_TRUE(message_after(before));
  }

  Result<StreamMessage> message_after(std::size_t count) {
    std::size_t seen = 0;
    return kubelet_->wait_for_message([&](const StreamMessage&) { return ++seen > count; }, kSoon);
  }

  std::vector<Call> calls_of(Method method) const {
    std::vector<Call> result;
    for (const Call& call : kubelet_->calls()) {
      if (call.method == method) result.push_back(call);
    }
    return result;
  }

  Result<ResourceView> wait_until_not_watching() {
    return kubelet_->wait_for_devices(kGpu, [](const ResourceView& view) { return !view.watching; }, kSoon);
  }

  std::string dir_;
  KubeletSettings settings_;
  std::unique_ptr<Kubelet> kubelet_;
};

void make_socket(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
}

TEST_F(KubeletDouble, DeletesEverySocketInThePluginDirectoryAndNothingElse) {
  std::filesystem::create_directories(settings_.plugin_dir);
  make_socket(settings_.plugin_dir + "/foreign.sock");
  std::ofstream(settings_.plugin_dir + "/DEPRECATION") << "a file";
  start();
  EXPECT_FALSE(std::filesystem::exists(settings_.plugin_dir + "/foreign.sock"));
  EXPECT_TRUE(std::filesystem::exists(settings_.plugin_dir + "/DEPRECATION"));
  EXPECT_TRUE(std::filesystem::is_socket(kubelet_->registration_socket()));
}

TEST_F(KubeletDouble, GivesUpDiallingAnEndpointThatNobodyServes) {
  settings_.dial_deadline = 300ms;
  start();
  const auto status = plugin("absent.sock", {})->register_as(kGpu);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNKNOWN);
  EXPECT_THAT(status.error_message(), HasSubstr("failed to dial device plugin"));
  EXPECT_FALSE(kubelet_->view(kGpu).registered);
}

TEST_F(KubeletDouble, RefusesAForeignVersionABadNameAndAnEndpointThatIsAPath) {
  start();
  auto tiny = plugin("tiny.sock", {});
  tiny->serve();
  EXPECT_THAT(tiny->register_as(kGpu, "v1alpha1").error_message(), HasSubstr("v1alpha1"));
  EXPECT_THAT(tiny->register_as("gpu").error_message(), HasSubstr("invalid"));
  EXPECT_THAT(tiny->register_as("node.kubernetes.io/gpu").error_message(), HasSubstr("invalid"));
  const auto with_path = tiny->register_endpoint(kGpu, "v1beta1", "sub/tiny.sock");
  EXPECT_THAT(with_path.error_message(), HasSubstr("not a file name"));
  EXPECT_THAT(kubelet_->registrations(), IsEmpty());
}

TEST_F(KubeletDouble, TakesAllDevicesForUnhealthyOnceTheStreamEndsAndNeverOpensItAgain) {
  start();
  auto tiny = registered("tiny.sock", {{"a"}, {"b"}});
  tiny->end_streams();
  ASSERT_TRUE(wait_until_not_watching());
  const auto view = kubelet_->view(kGpu);
  EXPECT_EQ(view.capacity, 2u);
  EXPECT_EQ(view.allocatable, 0u);
  EXPECT_TRUE(view.registered);
  EXPECT_THAT(calls_of(Method::kListAndWatch), SizeIs(1));
  // The plugin still serves, but kubelet does not watch it: only a new registration helps.
  EXPECT_EQ(tiny->open_streams(), 0);
  ASSERT_TRUE(tiny->register_as(kGpu).ok());
  EXPECT_TRUE(kubelet_->wait_for_healthy(kGpu, 2, kSoon));
}

TEST_F(KubeletDouble, ForgetsAStoppedEndpointAfterItsGrace) {
  settings_.endpoint_grace = 100ms;
  start();
  auto tiny = registered("tiny.sock", {{"a"}});
  tiny->end_streams();
  ASSERT_TRUE(kubelet_->wait_for_devices(kGpu, [](const ResourceView& view) { return !view.registered; }, kSoon));
  EXPECT_EQ(kubelet_->view(kGpu).capacity, 0u);
  EXPECT_THAT(kubelet_->views(), IsEmpty());
}

TEST_F(KubeletDouble, LetsANewRegistrationReplaceTheEndpointAndIgnoresTheEndOfTheOldStream) {
  start();
  auto old_plugin = registered("old.sock", {{"a"}});
  auto new_plugin = registered("new.sock", {{"a"}, {"b"}});
  EXPECT_EQ(kubelet_->view(kGpu).endpoint, "new.sock");
  old_plugin->set_devices({{"z"}});  // recorded, but ignored
  ASSERT_TRUE(kubelet_->wait_for_message([](const StreamMessage& m) { return m.devices.front().id == "z"; }, kSoon));
  EXPECT_EQ(kubelet_->view(kGpu).allocatable, 2u);
  old_plugin->stop();
  ASSERT_TRUE(kubelet_->wait_for_call([](const Call& c) { return c.method == Method::kListAndWatch; }, kSoon));
  EXPECT_TRUE(kubelet_->view(kGpu).watching);
  EXPECT_EQ(kubelet_->view(kGpu).allocatable, 2u);
}

TEST_F(KubeletDouble, AsAnOldKubeletDisconnectsTheNewPluginWhenTheOldStreamEnds) {
  settings_.old_stream_end_disconnects_current = true;
  start();
  auto old_plugin = registered("old.sock", {{"a"}});
  auto new_plugin = registered("new.sock", {{"a"}, {"b"}});
  old_plugin->stop();
  ASSERT_TRUE(wait_until_not_watching());
  EXPECT_EQ(kubelet_->view(kGpu).endpoint, "new.sock");
  EXPECT_EQ(kubelet_->view(kGpu).allocatable, 0u);
  ASSERT_TRUE(kubelet_->wait_for_call([](const Call& c) { return c.endpoint == "new.sock" && c.status != 0; }, kSoon));
}

TEST_F(KubeletDouble, SendsLocalhostAsAuthorityAndThePathWhenOld) {
  start();
  auto tiny = registered("tiny.sock", {{"a"}});
  EXPECT_THAT(tiny->authorities(), ElementsAre("localhost"));
  const auto stream = kubelet_->open_extra_stream(kGpu, "path");
  ASSERT_TRUE(stream);
  ASSERT_TRUE(kubelet_->wait_for_message([&](const StreamMessage& m) { return m.stream == *stream; }, kSoon));
  EXPECT_THAT(tiny->authorities(), ElementsAre("localhost", settings_.plugin_dir + "/tiny.sock"));
}

TEST_F(KubeletDouble, AllocatesHealthyDevicesThatNobodyHoldsWithOneContainerRequestEach) {
  start();
  auto tiny = registered("tiny.sock", {{"a"}, {"b", false}, {"c"}});
  tiny->allocation = [](const auto& ids, v1beta1::ContainerAllocateResponse* response) {
    (*response->mutable_envs())["IDS"] = ids.front();
    return grpc::Status::OK;
  };
  const auto first = kubelet_->admit(one_container_pod("one", kGpu, 1));
  ASSERT_TRUE(first.admitted) << first.message;
  const auto second = kubelet_->admit(one_container_pod("two", kGpu, 1));
  ASSERT_TRUE(second.admitted) << second.message;
  EXPECT_THAT(kubelet_->view(kGpu).allocated, ElementsAre("a", "c"));
  EXPECT_EQ(first.containers.at(0).envs.at("IDS"), first.containers.at(0).slots.at(kGpu).at(0));
  const auto third = kubelet_->admit(one_container_pod("three", kGpu, 1));
  EXPECT_FALSE(third.admitted);
  EXPECT_EQ(third.reason, "UnexpectedAdmissionError");
  EXPECT_THAT(third.message, HasSubstr("Requested: 1, Available: 0"));
  EXPECT_THAT(calls_of(Method::kAllocate), SizeIs(2));
  kubelet_->remove_pod("default/one");
  EXPECT_TRUE(kubelet_->admit(one_container_pod("three", kGpu, 1)).admitted);
}

// Each write is of all grants: a node that ends with 768 pods must not write them 768 times.
TEST_F(KubeletDouble, PodsThatEndTogetherAreOneWriteOfTheCheckpoint) {
  settings_.checkpoint = dir_ + "/checkpoint";
  start();
  auto tiny = registered("tiny.sock", {{"a"}, {"b"}, {"c"}});
  for (const char* name : {"one", "two", "three"})
    ASSERT_TRUE(kubelet_->admit(one_container_pod(name, kGpu, 1)).admitted);
  const int changes = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(changes, dir_.c_str(), IN_MOVED_TO), 0);
  kubelet_->remove_pods({"default/one", "default/two"});
  alignas(inotify_event) char events[4096];
  const auto got = ::read(changes, events, sizeof events);
  ASSERT_GT(got, 0);
  const auto* first = reinterpret_cast<const inotify_event*>(events);
  EXPECT_STREQ(first->name, "checkpoint");
  EXPECT_EQ(static_cast<std::size_t>(got), sizeof *first + first->len) << "one";
  ::close(changes);
  EXPECT_THAT(kubelet_->view(kGpu).allocated, SizeIs(1));
}

TEST_F(KubeletDouble, AsksForAPreferenceOnlyWhereThePluginOffersIt) {
  start();
  auto tiny = registered("tiny.sock", {{"a"}, {"b"}});
  ASSERT_TRUE(kubelet_->admit(one_container_pod("one", kGpu, 1)).admitted);
  EXPECT_THAT(calls_of(Method::kPreferred), IsEmpty());
}

TEST_F(KubeletDouble, FollowsThePreferenceAsFarAsItIsAvailable) {
  start();
  auto tiny = plugin("tiny.sock", {{"a"}, {"b"}, {"c"}, {"d"}});
  tiny->offers_preference = true;
  tiny->preference = [](const auto&, int) { return std::vector<std::string>{"d", "d", "unknown"}; };
  join(*tiny);
  const auto result = kubelet_->admit(one_container_pod("one", kGpu, 2));
  ASSERT_TRUE(result.admitted) << result.message;
  EXPECT_THAT(result.containers.at(0).slots.at(kGpu), testing::AllOf(SizeIs(2), testing::Contains("d")));
  const auto asked = calls_of(Method::kPreferred);
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_THAT(asked[0].ids, testing::UnorderedElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(asked[0].size, 2);
  EXPECT_THAT(asked[0].preferred, ElementsAre("d", "d", "unknown"));
}

TEST_F(KubeletDouble, LeavesThePreferenceOutWhenAllIsNeededOnNodesThatAlignDevices) {
  settings_.no_preference_when_all_needed = true;
  start();
  auto tiny = plugin("tiny.sock", {{"a"}, {"b"}});
  tiny->offers_preference = true;
  tiny->preference = [](const auto& available, int) { return available; };
  join(*tiny);
  ASSERT_TRUE(kubelet_->admit(one_container_pod("one", kGpu, 2)).admitted);
  EXPECT_THAT(calls_of(Method::kPreferred), IsEmpty());
}

TEST_F(KubeletDouble, RefusesThePodWithThePluginsWordsWhenAPreferenceOrAllocationFails) {
  start();
  auto tiny = plugin("tiny.sock", {{"a"}, {"b"}});
  tiny->allocation = [](const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the slots lie on two GPUs");
  };
  join(*tiny);
  const auto refused = kubelet_->admit(one_container_pod("one", kGpu, 1));
  EXPECT_EQ(refused.reason, "UnexpectedAdmissionError");
  EXPECT_EQ(refused.message,
            "Allocate failed due to rpc error: code = InvalidArgument desc = the slots lie on two GPUs, which is "
            "unexpected");
  EXPECT_EQ(refused.status, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(kubelet_->view(kGpu).allocated, IsEmpty());
  tiny->offers_preference = true;  // and returns UNIMPLEMENTED
  ASSERT_TRUE(tiny->register_as(kGpu).ok());
  EXPECT_THAT(kubelet_->admit(one_container_pod("one", kGpu, 1)).message, HasSubstr("GetPreferredAllocation"));
}

TEST_F(KubeletDouble, RefusesAPodAsAWhole) {
  start();
  auto tiny = registered("tiny.sock", {{"a"}, {"b"}});
  PodAsk pod = one_container_pod("two", kGpu, 1);
  pod.containers.push_back({.name = "greedy", .resources = {{kGpu, 2}}});
  EXPECT_FALSE(kubelet_->admit(pod).admitted);
  EXPECT_THAT(kubelet_->view(kGpu).allocated, IsEmpty());
}

TEST_F(KubeletDouble, ReplaysTheRecordedAnswerWhenAContainerStartsAgain) {
  start();
  auto tiny = registered("tiny.sock", {{"a"}});
  int asked = 0;
  tiny->allocation = [&](const auto&, v1beta1::ContainerAllocateResponse* response) {
    (*response->mutable_envs())["COUNT"] = std::to_string(++asked);
    auto& mount = *response->add_mounts();
    mount.set_container_path("/mps");
    mount.set_host_path("/run/mps");
    mount.set_read_only(true);
    return grpc::Status::OK;
  };
  const auto admitted = kubelet_->admit(one_container_pod("one", kGpu, 1));
  ASSERT_TRUE(admitted.admitted);
  for (int i = 0; i < 3; ++i) {
    const auto grant = kubelet_->start_container("default/one", "main");
    ASSERT_TRUE(grant) << to_string(grant.error());
    EXPECT_EQ(*grant, admitted.containers.at(0));
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(admitted.containers.at(0).mounts.at(0).host_path, "/run/mps");
  EXPECT_TRUE(admitted.containers.at(0).mounts.at(0).read_only);
}

TEST_F(KubeletDouble, MergesAnswersOfSeveralResourcesKeyByKeyInAnyOrderAndTheFirstStays) {
  start();
  std::vector<std::unique_ptr<TinyPlugin>> plugins;
  PodAsk pod = one_container_pod("both", "nvidia.com/gpu0", 1);
  pod.containers[0].resources["nvidia.com/gpu1"] = 1;
  for (const std::string number : {"0", "1"}) {
    auto tiny = plugin("tiny" + number + ".sock", {{"device-" + number}});
    tiny->allocation = [number](const auto&, v1beta1::ContainerAllocateResponse* response) {
      (*response->mutable_envs())["SAME"] = number;
      (*response->mutable_envs())["OWN" + number] = number;
      auto& mount = *response->add_mounts();
      mount.set_container_path("/endpoint");
      mount.set_host_path("/endpoints/" + number);
      return grpc::Status::OK;
    };
    tiny->serve();
    ASSERT_TRUE(tiny->register_as("nvidia.com/gpu" + number).ok());
    ASSERT_TRUE(kubelet_->wait_for_healthy("nvidia.com/gpu" + number, 1, kSoon));
    plugins.push_back(std::move(tiny));
  }
  ASSERT_TRUE(kubelet_->admit(pod).admitted);
  std::set<std::string> firsts;
  for (int i = 0; i < 32; ++i) {
    const auto grant = kubelet_->start_container("default/both", "main");
    ASSERT_TRUE(grant) << to_string(grant.error());
    EXPECT_EQ(grant->envs.at("OWN0") + grant->envs.at("OWN1"), "01");
    ASSERT_THAT(grant->mounts, SizeIs(1));
    EXPECT_EQ(grant->mounts[0].host_path, "/endpoints/" + grant->envs.at("SAME")) << "all keys by one order";
    firsts.insert(grant->envs.at("SAME"));
  }
  EXPECT_THAT(firsts, SizeIs(2)) << "another order at another start";
}

TEST_F(KubeletDouble, CallsPreStartBeforeEveryStartWhenThePluginAskedForIt) {
  start();
  auto tiny = plugin("tiny.sock", {{"a"}});
  tiny->wants_pre_start = true;
  join(*tiny);
  ASSERT_TRUE(kubelet_->admit(one_container_pod("one", kGpu, 1)).admitted);
  ASSERT_TRUE(kubelet_->start_container("default/one", "main"));
  ASSERT_TRUE(kubelet_->start_container("default/one", "main"));
  EXPECT_THAT(calls_of(Method::kPreStart), SizeIs(2));
  tiny->pre_start = grpc::Status(grpc::StatusCode::INTERNAL, "not ready");
  const auto failed = kubelet_->start_container("default/one", "main");
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().what, HasSubstr("not ready"));
}

TEST_F(KubeletDouble, KeepsGrantsOverItsRestartWhileResourcesWaitForTheirPlugins) {
  start();
  auto tiny = registered("tiny.sock", {{"a"}, {"b"}});
  const auto admitted = kubelet_->admit(one_container_pod("one", kGpu, 1));
  ASSERT_TRUE(admitted.admitted);
  const auto last = kubelet_->registrations().back().number;
  ASSERT_TRUE(kubelet_->restart());
  EXPECT_FALSE(std::filesystem::exists(settings_.plugin_dir + "/tiny.sock"));
  const auto view = kubelet_->view(kGpu);
  EXPECT_TRUE(view.registered);  // known from the checkpoint
  EXPECT_EQ(view.capacity, 0u);
  EXPECT_THAT(view.allocated, SizeIs(1));
  // A running container is not changed; one that is not running cannot start without its plugin.
  PodAsk again = one_container_pod("one", kGpu, 1);
  EXPECT_FALSE(kubelet_->admit(one_container_pod("other", kGpu, 1)).admitted);
  again.containers[0].running = true;
  EXPECT_EQ(kubelet_->admit(again).containers, admitted.containers);

  tiny->stop();
  tiny->serve();
  ASSERT_TRUE(tiny->register_as(kGpu).ok());
  ASSERT_TRUE(kubelet_->wait_for_registration(kGpu, kSoon, last));
  ASSERT_TRUE(kubelet_->wait_for_healthy(kGpu, 2, kSoon));
  again.containers[0].running = false;
  const auto readmitted = kubelet_->admit(again);
  EXPECT_EQ(readmitted.containers, admitted.containers);
  EXPECT_THAT(calls_of(Method::kAllocate), SizeIs(1));
  EXPECT_EQ(*kubelet_->start_container("default/one", "main"), admitted.containers.at(0));
}

TEST_F(KubeletDouble, ReadsGrantsOfAnEarlierProcessFromTheCheckpoint) {
  start();
  auto tiny = registered("tiny.sock", {{"a"}, {"b"}});
  const auto admitted = kubelet_->admit(one_container_pod("one", kGpu, 1));
  kubelet_.reset();
  start();
  PodAsk again = one_container_pod("one", kGpu, 1);
  again.containers[0].running = true;
  EXPECT_EQ(kubelet_->admit(again).containers, admitted.containers);
  kubelet_->keep_only_pods({});
  EXPECT_THAT(kubelet_->view(kGpu).allocated, IsEmpty());
}

TEST_F(KubeletDouble, SaysSoWhenItsCheckpointIsCorrupted) {
  settings_.checkpoint = dir_ + "/checkpoint";
  std::ofstream(settings_.checkpoint) << R"({"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":1})";
  const auto opened = Kubelet::open(settings_);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().what, HasSubstr("corrupted"));
}

TEST_F(KubeletDouble, AdmitsAPodThatAsksForAnUnknownResourceWithoutDevices) {
  start();
  const auto result = kubelet_->admit(one_container_pod("one", "example.com/unknown", 1));
  EXPECT_TRUE(result.admitted);
  EXPECT_THAT(result.containers.at(0).slots, IsEmpty());
}

TEST_F(KubeletDouble, EndsAnAllocationThatHangsWhenItStops) {
  start();
  std::mutex mutex;
  std::condition_variable changed;
  bool entered = false;
  bool leave = false;
  auto tiny = registered("tiny.sock", {{"a"}});  // destroyed first: its call still waits on the objects above
  tiny->allocation = [&](const auto&, auto*) {
    std::unique_lock lock(mutex);
    entered = true;
    changed.notify_all();
    changed.wait(lock, [&] { return leave; });
    return grpc::Status::OK;
  };
  Admission result;
  std::jthread admitting([&] { result = kubelet_->admit(one_container_pod("one", kGpu, 1)); });
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kSoon, [&] { return entered; }));
  }
  kubelet_->stop();
  admitting.join();
  EXPECT_FALSE(result.admitted);
  const std::lock_guard lock(mutex);
  leave = true;
  changed.notify_all();
}

TEST_F(KubeletDouble, ListsPodsAndAllocatableDevicesOverPodResources) {
  settings_.pod_resources_socket = dir_ + "/pr/kubelet.sock";
  start();
  auto tiny = registered("tiny.sock", {{"a"}, {"b", false}});
  ASSERT_TRUE(kubelet_->admit(one_container_pod("one", kGpu, 1)).admitted);
  const auto stub = v1::PodResourcesLister::NewStub(
      grpc::CreateChannel("unix:" + settings_.pod_resources_socket, grpc::InsecureChannelCredentials()));
  v1::ListPodResourcesResponse pods;
  grpc::ClientContext list;
  ASSERT_TRUE(stub->List(&list, {}, &pods).ok());
  ASSERT_EQ(pods.pod_resources_size(), 1);
  EXPECT_EQ(pods.pod_resources(0).namespace_(), "default");
  const auto& container = pods.pod_resources(0).containers(0);
  EXPECT_EQ(container.devices(0).resource_name(), kGpu);
  EXPECT_THAT(container.devices(0).device_ids(), ElementsAre("a"));
  v1::AllocatableResourcesResponse allocatable;
  grpc::ClientContext ask;
  ASSERT_TRUE(stub->GetAllocatableResources(&ask, {}, &allocatable).ok());
  EXPECT_THAT(allocatable.devices(0).device_ids(), ElementsAre("a"));
}

}  // namespace
}  // namespace tranche::sim
