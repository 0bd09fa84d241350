// Facts of kubelet's device manager that no test of the product's own plugin meets (tests/contract), tested with a tiny
// plugin over real sockets.
#include "standins/kubelet/kubelet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <thread>

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
    EXPECT_TRUE(joining.register_as(kGpu).ok());
    EXPECT_TRUE(kubelet_->wait_for_message([](const StreamMessage&) { return true; }, kSoon));
  }

  std::vector<Call> calls_of(Method method) const {
    std::vector<Call> result;
    for (const Call& call : kubelet_->calls()) {
      if (call.method == method) result.push_back(call);
    }
    return result;
  }

  std::string dir_;
  KubeletSettings settings_;
  std::unique_ptr<Kubelet> kubelet_;
};

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

}  // namespace
}  // namespace tranche::sim
