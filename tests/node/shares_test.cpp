// Shares of any size on the real programs: several slots of a container, GPUs that are one pool, resources of which one
// container holds several, units of account, and what a new configuration leaves alone.
#include <csignal>
#include <filesystem>

#include "node/bed.h"

namespace tranche::e2e {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kOutOfMemory = 12;
constexpr int kClientTerminated = 90;
constexpr std::uint64_t kH200MiB = 143771;

std::string resource(int gpu) {
  return "nvidia.com/gpu" + std::to_string(gpu);
}

std::string grant_of(const sim::ContainerGrant& grant) {
  return std::filesystem::path(endpoint_of(grant)).filename();
}

const Json* endpoint_at(const Json& mps_status, const std::string& grant) {
  for (const auto& pool : mps_status["pools"])
    for (const auto& endpoint : pool["endpoints"])
      if (endpoint["grant"] == grant) return &endpoint;
  return nullptr;
}

class NodeShares : public NodeBed {
 protected:
  void start_with(int gpus, const std::string& entry, const std::string& section = "") {
    ASSERT_NO_FATAL_FAILURE(make_node(gpus));
    configure(entry, section);
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    start_mps();
    start_node();
  }
  void configure(const std::string& entry, const std::string& section = "") {
    write("config.yaml", "version: v1\nsharing:\n  mps:\n    failRequestsGreaterThanOne: false\n" + section +
                             "    resources:\n    - name: nvidia.com/gpu\n" + entry);
  }
  void start_individual(const std::string& section = "") {
    ASSERT_NO_FATAL_FAILURE(start_with(2, "      replicas: 20\n      names: gpu%d\n", section));
    for (int gpu = 0; gpu < 2; ++gpu) ASSERT_TRUE(kubelet().wait_for_healthy(resource(gpu), 20, kSoon));
  }
  static sim::PodAsk pod_of_both(const std::string& name, std::uint64_t first = 5, std::uint64_t second = 5) {
    auto pod = sim::one_container_pod(name, resource(0), first);
    pod.containers[0].resources[resource(1)] = second;
    return pod;
  }
  // What the legacy runtime makes of it: the devices whose nodes the container has, whatever the variable says.
  sim::ContainerGrant with_nodes(sim::ContainerGrant grant) const {
    std::string visible;
    for (int gpu = 0; gpu < 2; ++gpu)
      for (const auto& node : grant.devices)
        if (node.container_path == "/dev/nvidia" + std::to_string(gpu))
          visible += (visible.empty() ? "" : ",") + uuid(gpu);
    grant.envs["NVIDIA_VISIBLE_DEVICES"] = visible;
    return grant;
  }
  // A running container of both, by each of its endpoints: kubelet draws the order at every start.
  std::map<std::string, sim::ContainerGrant> by_each_endpoint(const std::string& pod) {
    std::map<std::string, sim::ContainerGrant> by_endpoint;
    for (int i = 0; i < 64 && by_endpoint.size() < 2; ++i) {
      const auto started = kubelet().start_container("default/" + pod, "main");
      EXPECT_TRUE(started) << to_string(started.error());
      if (started) by_endpoint[grant_of(*started)] = with_nodes(*started);
    }
    EXPECT_THAT(by_endpoint, SizeIs(2));
    return by_endpoint;
  }
  // Once every endpoint has limits of as many devices.
  Json until_limits_set(std::size_t endpoints, std::size_t devices) {
    return until_mps([&](const Json& status) {
      std::size_t limited = 0;
      for (const auto& pool : status["pools"])
        for (const auto& endpoint : pool["endpoints"])
          limited += endpoint["limits"].is_array() && endpoint["limits"].size() == devices;
      return limited == endpoints;
    });
  }
  // The line that it prints for each device.
  std::vector<Json> contexts(Program& cuda, std::size_t count) {
    const auto lines = [&] { return static_cast<std::size_t>(std::ranges::count(cuda.out(), '\n')); };
    until([&] { return lines() >= count || !cuda.running(); }, "contexts");
    std::vector<Json> all;
    std::istringstream text(cuda.out());
    for (std::string line; std::getline(text, line);) all.push_back(Json::parse(line, nullptr, false));
    return all;
  }
};

// Promise: guard: A container with two resources has its share of each through either endpoint.
TEST_F(NodeShares, AContainerOfTwoResourcesHasItsShareOfEachWhicheverEndpointItComesInBy) {
  ASSERT_NO_FATAL_FAILURE(start_individual());
  const auto admission = kubelet().admit(pod_of_both("both"));
  ASSERT_TRUE(admission.admitted) << admission.message;
  until_limits_set(2, 2);
  for (const auto& [endpoint, grant] : by_each_endpoint("both")) {
    EXPECT_EQ(grant.envs.at("NVIDIA_VISIBLE_DEVICES"), uuid(0) + "," + uuid(1)) << "the nodes of both";
    EXPECT_EQ(grant.envs.count("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), 0u);
    Program& cuda = start_cuda(grant, {"--all-devices", "--hold"});
    const auto on = contexts(cuda, 2);
    ASSERT_THAT(on, SizeIs(2)) << cuda.out();
    for (int gpu = 0; gpu < 2; ++gpu) {
      const auto& context = on[static_cast<std::size_t>(gpu)];
      EXPECT_EQ(context["gpu"], uuid(gpu));
      EXPECT_EQ(context["mps"], true);
      EXPECT_EQ(context["limit"].get<std::uint64_t>() >> 20, kH200MiB * 5 / 20) << "by endpoint " << endpoint;
      EXPECT_EQ(context["runs_on"], 32) << "a quarter";
    }
    stop(cuda, SIGTERM, 128 + SIGTERM);
  }
}

TEST_F(NodeShares, TheSumOfAContainerCountsByWhicheverEndpoint) {
  ASSERT_NO_FATAL_FAILURE(start_individual("    guard: {memory: observe}\n"));
  ASSERT_TRUE(kubelet().admit(pod_of_both("both")).admitted);
  until_limits_set(2, 2);
  for (const auto& [endpoint, grant] : by_each_endpoint("both"))  // 20 of 35 GiB each, by an endpoint each
    ASSERT_EQ(attached(start_cuda(grant, {"--allocate", "20G", "--hold"}))["mps"], true);
  until_node([](const Json& s) {
    const auto& acts = s["guard"]["acts"];
    return acts.size() == 1 && acts[0]["limitMiB"] == 35942 && acts[0]["heldMiB"] > 40960;
  });
}

// The limits of an endpoint go by the number of a GPU in the container (mps/protocol/requests.h).
// Promise: guard: Before kubelet names the container, it has the limit of one grant on each GPU.
TEST_F(NodeShares, UntilKubeletReportsTheGpuOfAnotherGrantHasTheLimitOfTheEndpoints) {
  ASSERT_NO_FATAL_FAILURE(make_node(2));
  configure("      replicas: 20\n      names: gpu%d\n");
  ASSERT_NO_FATAL_FAILURE(start_kubelet());
  start_mps();
  std::filesystem::remove(in("run/pod-resources.sock"));  // kubelet reports nothing
  start_node();
  for (int gpu = 0; gpu < 2; ++gpu) ASSERT_TRUE(kubelet().wait_for_healthy(resource(gpu), 20, kSoon));
  const auto admission = kubelet().admit(pod_of_both("both"));
  ASSERT_TRUE(admission.admitted) << admission.message;
  Program& cuda = start_cuda(with_nodes(admission.containers.at(0)), {"--all-devices", "--hold"});
  const auto on = contexts(cuda, 2);
  ASSERT_THAT(on, SizeIs(2)) << cuda.out();
  for (const auto& context : on) EXPECT_EQ(context["limit"].get<std::uint64_t>() >> 20, kH200MiB * 5 / 20);
  stop(cuda, SIGTERM, 128 + SIGTERM);
}

// Promise: guard: The next container gets nothing of the last one's other grants.
TEST_F(NodeShares, TheNextContainerByAnEndpointHasNothingOfTheLastOnesOtherGrants) {
  ASSERT_NO_FATAL_FAILURE(start_individual());
  ASSERT_TRUE(kubelet().admit(pod_of_both("both", 20, 20)).admitted);
  until_limits_set(2, 2);
  kubelet().remove_pod("default/both");
  const auto next = kubelet().admit(sim::one_container_pod("next", resource(0), 20));
  ASSERT_TRUE(next.admitted) << next.message;
  const auto grant = grant_of(next.containers.at(0));
  const auto status = until_mps([&](const Json& s) {
    const auto* endpoint = endpoint_at(s, grant);
    return endpoint != nullptr && (*endpoint)["limits"].is_array() && (*endpoint)["limits"].size() == 1;
  });
  EXPECT_EQ((*endpoint_at(status, grant))["limits"][0]["uuid"], uuid(0));
}

TEST_F(NodeShares, ASplitIsRefusedWithTheGpusNamedAndSpannedWhereThatIsAskedFor) {
  ASSERT_NO_FATAL_FAILURE(start_with(2, "      replicas: 4\n"));
  ASSERT_TRUE(until_healthy(8));
  const auto refused = kubelet().admit(sim::one_container_pod("wide", kGpu, 6));
  EXPECT_FALSE(refused.admitted);
  EXPECT_THAT(refused.message, HasSubstr("lie on 2 GPUs"));
  EXPECT_THAT(refused.message, HasSubstr(uuid(0)));
  EXPECT_THAT(refused.message, HasSubstr(uuid(1)));
  EXPECT_THAT(refused.message, HasSubstr("ask for at most 4"));
  configure("      replicas: 4\n", "    split: span\n");
  until_mps([](const Json& s) { return s["pools"].size() == 1 && s["pools"][0]["state"] == "serving"; });
  ASSERT_TRUE(until_healthy(8));
  const auto grant = admitted(kubelet(), "wide", 6);
  Program& cuda = start_cuda(grant, {"--all-devices", "--hold"});
  const auto on = contexts(cuda, 2);
  ASSERT_THAT(on, SizeIs(2)) << cuda.out();
  std::uint64_t slots = 0;
  for (const auto& context : on) {
    const std::uint64_t held = ((context["limit"].get<std::uint64_t>() >> 20) * 4 + kH200MiB / 2) / kH200MiB;
    slots += held;
    EXPECT_EQ(context["limit"].get<std::uint64_t>() >> 20, kH200MiB * held / 4);
    EXPECT_EQ(context["runs_on"], on[0]["runs_on"]) << "one percentage for all of its GPUs";
  }
  EXPECT_EQ(slots, 6u);
}

TEST_F(NodeShares, MoreSlotsAreMoreMemoryOnEveryGpuOfTheNode) {
  ASSERT_NO_FATAL_FAILURE(start_with(2, "      replicas: 10\n"));
  ASSERT_TRUE(until_healthy(20));
  std::set<std::string> gpus;
  for (const auto& [name, count] : std::map<std::string, std::uint64_t>{{"a", 10}, {"b", 7}, {"c", 3}}) {
    const auto grant = admitted(kubelet(), name, count);
    Program& cuda = start_cuda(grant, {"--hold"});
    const Json line = attached(cuda);
    EXPECT_EQ(line["limit"].get<std::uint64_t>() >> 20, kH200MiB * count / 10) << name;
    gpus.insert(line["gpu"]);
    EXPECT_THAT(finish(start_cuda(grant, {"--allocate", std::to_string(kH200MiB * count / 10 + 1000) + "M"})),
                AnyOf(Eq(kOutOfMemory), Eq(kClientTerminated)));
  }
  EXPECT_THAT(gpus, SizeIs(2)) << "also on a GPU that is not the first";
}

// Promise: guard: A grant keeps the limits that it was given.
TEST_F(NodeShares, ANewConfigurationLeavesARunningGrantAloneAndNewOnesGetTheNew) {
  ASSERT_NO_FATAL_FAILURE(start_with(1, "      replicas: 4\n"));
  ASSERT_TRUE(until_healthy(4));
  const auto old = admitted(kubelet(), "old", 1);
  Program& holder = start_cuda(old, {"--allocate", "30G", "--hold"});
  ASSERT_EQ(attached(holder)["limit"].get<std::uint64_t>() >> 20, kH200MiB / 4);
  until_node([](const Json& s) { return s["grants"].size() == 1; });
  const Json* before = nullptr;
  const Json first = until_mps([&](const Json& s) { return (before = endpoint_at(s, grant_of(old))) != nullptr; });
  const Json limits_before = (*endpoint_at(first, grant_of(old)))["limits"];

  configure("      replicas: 8\n");
  ASSERT_TRUE(until_healthy_of(8, 7)) << "a quarter is held, which leaves room for six eighths";
  const auto young = admitted(kubelet(), "young", 1);
  EXPECT_EQ(attached(start_cuda(young, {"--hold"}))["limit"].get<std::uint64_t>() >> 20, kH200MiB / 8);
  const auto both = [&](const Json& s) {
    return s["grants"].size() == 2 &&
           s["grants"][0]["devices"][0]["memoryMiB"] != s["grants"][1]["devices"][0]["memoryMiB"];
  };
  const auto check = [&] {
    const Json status = until_node(both);
    for (const auto& grant : status["grants"])
      EXPECT_EQ(grant["devices"][0]["memoryMiB"], grant["pod"] == "old" ? kH200MiB / 4 : kH200MiB / 8);
    const Json mps = until_mps([&](const Json& s) { return endpoint_at(s, grant_of(old)) != nullptr; });
    EXPECT_EQ((*endpoint_at(mps, grant_of(old)))["limits"], limits_before);
    EXPECT_EQ(attached(start_cuda(old, {}))["limit"].get<std::uint64_t>() >> 20, kH200MiB / 4) << "its next process";
  };
  check();
  stop(*program("node"), SIGTERM, 0);
  start_node();
  ASSERT_TRUE(until_healthy_of(8, 7));
  check();
  EXPECT_TRUE(holder.running()) << holder.out();
}

// Promise: guard: A lost grants file is made again from the endpoints' limits.
TEST_F(NodeShares, TheLedgerIsMadeAnewFromTheLimitsOfTheEndpoints) {
  ASSERT_NO_FATAL_FAILURE(start_with(1, "      replicas: 4\n"));
  ASSERT_TRUE(until_healthy(4));
  admitted(kubelet(), "old", 1);
  until_node([](const Json& s) { return s["grants"].size() == 1; });
  stop(*program("node"), SIGTERM, 0);
  std::filesystem::remove(in("run/grants.txt"));
  configure("      replicas: 8\n");
  start_node();
  ASSERT_TRUE(until_healthy_of(8, 7)) << "the quarter that is held is two of them";
  const Json status = until_node([](const Json& s) { return s["guard"]["limits"].size() == 1; });
  EXPECT_EQ(status["guard"]["limits"][0]["limitMiB"], kH200MiB / 4);
}

TEST_F(NodeShares, GrantsThatLiveAreCountedAgainstTheClientsOfTheDeviceAndFreedAtTheEndOfTheirPod) {
  ASSERT_NO_FATAL_FAILURE(start_with(2, "      replicas: 1000\n", "    maxClients: 2\n"));
  ASSERT_TRUE(until_healthy(2000));
  std::map<std::string, int> on;
  for (const char* name : {"a", "b", "c", "d"}) ++on[admitted(kubelet(), name, 100).envs.at("NVIDIA_VISIBLE_DEVICES")];
  EXPECT_EQ(on[uuid(0)], 2) << "the fullest that fits, while its server takes more clients";
  EXPECT_EQ(on[uuid(1)], 2);
  until_node([](const Json& s) { return s["grants"].size() == 4; });
  const auto fifth = kubelet().admit(sim::one_container_pod("e", kGpu, 100));
  EXPECT_FALSE(fifth.admitted);
  EXPECT_THAT(fifth.message, HasSubstr("its MPS server takes 2 clients"));
  kubelet().remove_pod("default/a");
  ASSERT_TRUE(os::ask(node_socket(), "status", kSoon)) << "who looks has kubelet asked again";
  until_node([](const Json& s) { return s["grants"].size() == 3; });
  EXPECT_TRUE(kubelet().admit(sim::one_container_pod("f", kGpu, 100)).admitted);
}

}  // namespace
}  // namespace tranche::e2e
