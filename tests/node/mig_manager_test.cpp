// The MIG manager of `tranche node` on a simulated node: the label decides, the stand-in of the driver is partitioned,
// and what pods hold stays.
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "node/bed.h"
#include "node/http_get.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kNodes = "/api/v1/nodes";
constexpr const char* kThree = "nvidia.com/mig-3g.20gb";
constexpr const char* kOne = "nvidia.com/mig-1g.5gb";

class MigManagerBed : public NodeBed {
 protected:
  MigManagerBed() : api_(sim::ApiServer::start()) {
    write("kubeconfig", api_->kubeconfig(""));
    write("config.yaml", "version: v1\nflags:\n  migStrategy: mixed\n");
  }
  void make_gpus(const std::string& gpus) {
    write("node/node.yaml", gpus);
    api_->put(kNodes, "n1", "{}");
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
  }
  Program& start_agent(Strings more = {}) {
    Strings words{"--kubeconfig", in("kubeconfig"), "--node-name", "n1", "--mig-manager", "true"};
    words.insert(words.end(), more.begin(), more.end());
    return start_node(words);
  }
  void label(const std::string& value) {
    api_->put(kNodes, "n1", R"({"metadata":{"labels":{"nvidia.com/mig.config":")" + value + R"("}}})");
  }
  Json node() const { return Json::parse(api_->object(kNodes, "n1"), nullptr, false); }
  std::string state() const {
    const Json object = node();
    return object.contains("metadata") && object["metadata"].contains("labels")
               ? object["metadata"]["labels"].value("nvidia.com/mig.config.state", "")
               : "";
  }
  // Every value that the state label was given, in order. The same value twice in a row counts once: the node's watch
  // may bring what was before the write after it, and the label is then written again.
  Strings states() const {
    Strings all;
    for (const auto& request : api_->requests()) {
      if (request.method != "PATCH" || request.path != std::string(kNodes) + "/n1") continue;
      const Json body = Json::parse(request.body, nullptr, false);
      if (!body.contains("metadata") || !body["metadata"].contains("labels")) continue;
      const auto value = body["metadata"]["labels"].value("nvidia.com/mig.config.state", "");
      if (all.empty() || all.back() != value) all.push_back(value);
    }
    return all;
  }
  bool until_state(const std::string& wanted) {
    return until([&] { return state() == wanted; }, "the state label is " + wanted);
  }
  Json until_mig(const std::function<bool(const Json&)>& condition) {
    const Json status = until_node([&](const Json& s) { return s.contains("mig") && condition(s["mig"]); });
    return status.is_object() && status.contains("mig") ? status["mig"] : Json::object();
  }
  Json condition() const {
    const Json object = node();
    if (!object.contains("status") || !object["status"].contains("conditions")) return Json::object();
    for (const auto& one : object["status"]["conditions"])
      if (one["type"] == "TrancheMigReady") return one;
    return Json::object();
  }
  bool until_slots(const std::string& resource, std::size_t count) {
    return kubelet()
        .wait_for_devices(
            resource, [count](const sim::ResourceView& v) { return v.healthy() == count && v.capacity == count; },
            kSoon)
        .has_value();
  }
  // Profile → number, as the stand-in has them. Without the loop, so that a condition may ask.
  std::map<std::string, int> layout() const {
    std::map<std::string, int> found;
    std::string text;
    FILE* show = ::popen((build() + "/standins/sim-node --node " + in("node") + " show").c_str(), "r");
    for (std::array<char, 4096> piece{}; show != nullptr && std::fgets(piece.data(), piece.size(), show) != nullptr;)
      text += piece.data();
    if (show != nullptr) ::pclose(show);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("without a compute instance") != std::string::npos) ++found["half-made"];
      if (!line.starts_with("  MIG ") || line.find("MIG-") == std::string::npos) continue;
      std::istringstream words(line);
      std::string mig, index, profile;
      words >> mig >> index >> profile;
      ++found[profile];
    }
    return found;
  }
  std::string gpu_uuid() {  // of the first GPU
    const std::string shown = shown_node();
    const auto at = shown.find("GPU-");
    return at == std::string::npos ? "" : shown.substr(at, shown.find(' ', at) - at);
  }
  sim::ContainerGrant admit(const std::string& pod, const std::string& resource) {
    auto admission = kubelet().admit(sim::one_container_pod(pod, resource, 1));
    EXPECT_TRUE(admission.admitted) << admission.message;
    return admission.containers.empty() ? sim::ContainerGrant{} : admission.containers.front();
  }

  std::unique_ptr<sim::ApiServer> api_;
};

constexpr const char* kTwoA100 =
    "topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: []}\n  - {profile: A100-PCIE-40GB, mig: []}\n";

// Promise: mig/manager: The node's label decides how its GPUs are partitioned, and the state label reports it.
TEST_F(MigManagerBed, TheLabelIsFollowedAndResourcesFollowAtOnce) {
  ASSERT_NO_FATAL_FAILURE(make_gpus(kTwoA100));
  Program& agent = start_agent();
  until_mig([](const Json& mig) { return mig["state"] == "idle"; });
  EXPECT_EQ(state(), "") << "a node without the label is left alone";
  label("all-3g.20gb");
  ASSERT_TRUE(until_state("success"));
  EXPECT_EQ(states(), (Strings{"pending", "success"}));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.20gb", 4}}));
  EXPECT_TRUE(until_slots(kThree, 4));
  EXPECT_TRUE(until([&] { return condition().value("reason", "") == "AsLabelled"; }, "the condition says so"));
  EXPECT_EQ(condition()["status"], "True");
  EXPECT_TRUE(until_says(agent, "mig.applied"));
  label("all-1g.5gb");
  EXPECT_TRUE(until_slots(kOne, 14));
  ASSERT_TRUE(until_state("success"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"1g.5gb", 14}}));
}

// Promise: mig/manager: After a reboot, which loses instances and on newer GPUs the mode, the label is reached again.
TEST_F(MigManagerBed, AfterARebootTheLabelIsReachedAgain) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("topology: pcie\ngpus:\n  - {profile: H200}\n"));
  start_agent();
  label("all-3g.71gb");
  ASSERT_TRUE(until_state("success"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.71gb", 2}}));
  sim_node({"reboot"});
  EXPECT_TRUE(until([&] { return layout() == std::map<std::string, int>{{"3g.71gb", 2}}; }, "the layout is back"));
  ASSERT_TRUE(until_state("success"));
}

// Promise: mig/manager: An instance that a pod holds is kept; one that has to go is waited for.
TEST_F(MigManagerBed, APodOnAnInstanceThatStaysDoesNotNoticeAndOneInTheWayIsWaitedFor) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: [3g.20gb, 1g.5gb]}\n"));
  start_agent();
  ASSERT_TRUE(until_slots(kThree, 1));
  const auto stays = admit("stays", kThree);
  const std::string uuid = stays.envs.at("NVIDIA_VISIBLE_DEVICES");
  label("all-3g.20gb");
  ASSERT_TRUE(until_state("success"));
  EXPECT_TRUE(until_slots(kThree, 2));
  EXPECT_THAT(shown_node(), HasSubstr(uuid)) << "the same MIG device";
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.20gb", 2}}));

  label("all-disabled");
  const Json waits = until_mig([](const Json& mig) { return mig["reason"] == "Waiting"; });
  ASSERT_TRUE(until_state("pending"));
  EXPECT_THAT(waits.value("message", ""), HasSubstr("pod default/stays"));
  EXPECT_THAT(shown_node(), HasSubstr(uuid)) << "nothing is destroyed while it waits";
  EXPECT_TRUE(kubelet().wait_for_devices(
      kThree, [](const sim::ResourceView& v) { return v.healthy() == 0; }, kSoon))
      << "no pod lands on what has to go";
  label("all-3g.20gb");
  ASSERT_TRUE(until_state("success")) << "back as it was asked before";
  EXPECT_TRUE(until_slots(kThree, 2));
  EXPECT_THAT(shown_node(), HasSubstr(uuid));
}

// Promise: mig/manager: A process that the driver lists on an instance keeps it, also without a pod.
TEST_F(MigManagerBed, AProcessKeepsItsInstance) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: [1g.5gb]}\n"));
  start_agent();
  ASSERT_TRUE(until_slots(kOne, 1));
  sim_node({"process", "add", "0", "4711", "1GiB", "--gi", "7", "--ci", "0"});
  label("all-3g.20gb");
  const Json waits = until_mig([](const Json& mig) { return mig["reason"] == "Waiting"; });
  EXPECT_THAT(waits.value("message", ""), HasSubstr("process 4711"));
  sim_node({"process", "remove", "0", "4711"});
  ASSERT_TRUE(until_state("success"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.20gb", 2}}));
}

// Promise: mig/manager: Own configurations come from a file or a ConfigMap, and their changes are followed.
TEST_F(MigManagerBed, OwnConfigurationsAreFollowed) {
  ASSERT_NO_FATAL_FAILURE(make_gpus(kTwoA100));
  const auto text = [](const std::string& first) {
    return "version: v1\nmig-configs:\n  mine:\n    - devices: [0]\n      mig-enabled: true\n      mig-devices:\n      "
           "  " +
           first + ": 1\n    - devices: [1]\n      mig-enabled: true\n      mig-devices: {}\n";
  };
  fs::create_directories(in("mig"));
  write("mig/config.yaml", text("2g.10gb"));
  label("mine");
  start_agent({"--mig-config-file", in("mig/config.yaml")});
  ASSERT_TRUE(until_state("success"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"2g.10gb", 1}}));
  write("mig/config.yaml", text("4g.20gb"));
  EXPECT_TRUE(until([&] { return layout() == std::map<std::string, int>{{"4g.20gb", 1}}; }, "the file is followed"));
  write("mig/config.yaml", text("4g.20gb") + "  broken");
  ASSERT_TRUE(until_state("failed"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"4g.20gb", 1}}));
}

// Promise: mig/manager: Where the GPU Operator's MIG manager runs, ours is off.
TEST_F(MigManagerBed, IsOffWhereTheOperatorsManagerRuns) {
  ASSERT_NO_FATAL_FAILURE(make_gpus(kTwoA100));
  api_->put(
      kNodes, "n1",
      R"({"metadata":{"labels":{"nvidia.com/gpu.deploy.mig-manager":"true","nvidia.com/mig.config":"all-1g.5gb"}}})");
  start_agent();
  const Json mig = until_mig([](const Json& m) { return m["state"] == "off"; });
  EXPECT_EQ(mig["reason"], "OtherManager");
  EXPECT_EQ(state(), "");
  EXPECT_TRUE(states().empty());
  EXPECT_TRUE(layout().empty());
}

// Promise: mig/manager: On Ampere a GPU whose mode changes is reset once nothing uses it.
TEST_F(MigManagerBed, OnAmpereTheModeChangesWithAResetOfThatGpu) {
  ASSERT_NO_FATAL_FAILURE(make_gpus(
      "topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: [7g.40gb]}\n  - {profile: A100-PCIE-40GB}\n"));
  fs::create_directories(in("driver/usr/bin"));
  fs::copy(build() + "/standins/sim-node", in("driver/usr/bin/nvidia-smi"));
  Program& agent = start_agent();
  ASSERT_TRUE(until_slots("nvidia.com/mig-7g.40gb", 1));
  const auto stays = admit("stays", "nvidia.com/mig-7g.40gb");
  label("all-7g.40gb");
  ASSERT_TRUE(until_state("success"));
  EXPECT_TRUE(until_says(agent, "mig.reset_done"));
  EXPECT_THAT(shown_node(), HasSubstr(stays.envs.at("NVIDIA_VISIBLE_DEVICES"))) << "the other GPU is not reset";
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"7g.40gb", 2}}));
  EXPECT_TRUE(until_slots("nvidia.com/mig-7g.40gb", 2));
}

TEST_F(MigManagerBed, WithoutAResetItSaysWhatToDoAndGoesOnAfterIt) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB}\n"));
  start_agent({"--mig-reset", "false"});
  label("all-3g.20gb");
  ASSERT_TRUE(until_state("failed"));
  const Json mig = until_mig([](const Json& m) { return m["reason"] == "NeedsReset"; });
  EXPECT_THAT(mig.value("message", ""), HasSubstr("nvidia-smi --gpu-reset -i GPU-"));
  sim_node({"gpu", "0", "reset"});
  ASSERT_TRUE(until_state("success"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.20gb", 2}}));
}

// Promise: mig/manager: By policy, pods that hold what has to go are evicted, and a refusal by a budget is repeated.
TEST_F(MigManagerBed, EvictsByPolicyAndRespectsABudget) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: [7g.40gb]}\n"));
  api_->put_pod("default", "in-the-way",
                R"({"metadata":{"uid":"u1"},"spec":{"nodeName":"n1"},"status":{"phase":"Running"}})");
  const auto evictions = [](const sim::ApiRequest& r) { return r.method == "POST" && r.path.ends_with("/eviction"); };
  api_->refuse(
      1, 429,
      R"({"kind":"Status","status":"Failure","code":429,"reason":"TooManyRequests","message":"Cannot evict pod as it would violate the pod's disruption budget."})",
      evictions);
  Program& agent = start_agent({"--mig-evict-after", "200ms"});
  ASSERT_TRUE(until_slots("nvidia.com/mig-7g.40gb", 1));
  admit("in-the-way", "nvidia.com/mig-7g.40gb");
  label("all-3g.20gb");
  EXPECT_TRUE(until_says(agent, "disruption budget"));
  EXPECT_TRUE(until_says(agent, "\"accepted\":true"));
  const auto all = api_->requests();
  EXPECT_EQ(std::count_if(all.begin(), all.end(), evictions), 2);
  kubelet().remove_pod("default/in-the-way");
  ASSERT_TRUE(until_state("success"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.20gb", 2}}));
}

// Promise: mig/manager: MPS on a MIG device that stays serves its tenant through a change of the others.
TEST_F(MigManagerBed, MpsOnAnInstanceThatStaysServesThroughTheChange) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: [3g.20gb, 1g.5gb]}\n"));
  write("config.yaml",
        "version: v1\nflags:\n  migStrategy: mixed\nsharing:\n  mps:\n    migDevices: true\n    resources:\n"
        "    - {name: nvidia.com/mig-3g.20gb, replicas: 2}\n");
  start_mps();
  start_agent();
  const auto before = until_serving(1);
  ASSERT_TRUE(until_slots(kThree, 2));
  api_->put_pod("default", "tenant",
                R"({"metadata":{"uid":"u1"},"spec":{"nodeName":"n1"},"status":{"phase":"Running"}})");
  const auto grant = admit("tenant", kThree);
  Program& client = start_cuda(grant, {"--hold"});
  EXPECT_EQ(attached(client)["mps"], true);
  label("all-3g.20gb");
  ASSERT_TRUE(until_state("success"));
  ASSERT_TRUE(until_slots(kThree, 4)) << "the new device has a pool of its own";
  const auto after = until_serving(2);
  EXPECT_TRUE(client.running());
  const auto daemon = [](const Json& status, const std::string& id) {
    for (const auto& pool : status["pools"])
      if (pool["id"] == id) return pool["daemonPid"];
    return Json();
  };
  const std::string id = pool_of(before, 0)["id"];
  EXPECT_EQ(daemon(after, id), daemon(before, id));
  Program& second = start_cuda(grant, {"--hold"});
  EXPECT_EQ(attached(second)["mps"], true) << "and takes new clients";
  label("all-1g.5gb");
  until_mig([](const Json& mig) { return mig["reason"] == "Waiting"; });
  EXPECT_TRUE(client.running() && second.running());
  stop(client, SIGKILL, 128 + SIGKILL);
  stop(second, SIGKILL, 128 + SIGKILL);
  kubelet().remove_pod("default/tenant");
  api_->delete_pod("default", "tenant");
  ASSERT_TRUE(until_state("success")) << "`tranche mps` ends the daemon of a device that has to go";
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"1g.5gb", 7}}));
}

// Promise: mig/manager: Metrics have the manager's state, its changes, what they wait for, and the instances.
TEST_F(MigManagerBed, MetricsHaveItsStateChangesAndInstances) {
  ASSERT_NO_FATAL_FAILURE(make_gpus("topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: [1g.5gb]}\n"));
  Program& agent = start_agent({"--listen", "127.0.0.1:0"});
  ASSERT_TRUE(until_slots(kOne, 1));
  const std::string pages = pages_of(agent);
  const auto has = [&](const std::string& line) {
    return until([&] { return http_get(pages, "/metrics").find(line + "\n") != std::string::npos; }, line);
  };
  EXPECT_TRUE(has("tranche_mig_state{state=\"idle\"} 1"));
  EXPECT_TRUE(has("tranche_mig_instances{gpu=\"" + gpu_uuid() + "\",profile=\"1g.5gb\"} 1"));
  sim_node({"process", "add", "0", "4711", "1GiB", "--gi", "7", "--ci", "0"});
  label("all-3g.20gb");
  EXPECT_TRUE(has("tranche_mig_waits_for{gpu=\"" + gpu_uuid() + "\"} 1"));
  EXPECT_TRUE(has("tranche_mig_state{state=\"pending\"} 1"));
  sim_node({"process", "remove", "0", "4711"});
  ASSERT_TRUE(until_state("success"));
  EXPECT_TRUE(has("tranche_mig_state{state=\"success\"} 1"));
  EXPECT_TRUE(has("tranche_mig_state{state=\"pending\"} 0"));
  EXPECT_TRUE(has("tranche_mig_changes_total{result=\"done\"} 1"));
  EXPECT_TRUE(has("tranche_mig_instances{gpu=\"" + gpu_uuid() + "\",profile=\"3g.20gb\"} 2"));
  EXPECT_THAT(http_get(pages, "/metrics"), HasSubstr("\ntranche_mig_change_seconds "));
  label("no-such-name");
  EXPECT_TRUE(has("tranche_mig_state{state=\"failed\"} 1"));
}

constexpr const char* kThreeA100 =
    "topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: []}\n  - {profile: A100-PCIE-40GB, mig: []}\n"
    "  - {profile: A100-PCIE-40GB, mig: []}\n";

// Promise: mig/manager: A GPU that does not answer hides no others; the state names it and the driver call.
TEST_F(MigManagerBed, AGpuThatDoesNotAnswerHidesNoOthers) {
  ASSERT_NO_FATAL_FAILURE(make_gpus(kThreeA100));
  start_agent();
  until_mig([](const Json& mig) { return mig["state"] == "idle"; });
  sim_node({"fail", "nvmlDeviceGetGpuInstances", "15", "--gpu", "1"});
  label("all-3g.20gb");
  ASSERT_TRUE(until_state("failed"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.20gb", 4}}));
  EXPECT_TRUE(until_slots(kThree, 4));
  ASSERT_TRUE(until([&] { return condition().value("reason", "") == "GpuSilent"; }, "the condition says so"));
  const std::string message = condition().value("message", "");
  EXPECT_THAT(message, HasSubstr("GPU 1"));
  EXPECT_THAT(message, HasSubstr("nvmlDeviceGetGpuInstances"));
  sim_node({"clear"});
  ASSERT_TRUE(until_state("success")) << "it is tried again without a new label";
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.20gb", 6}}));
}

// Promise: mig/manager: A change that one GPU's driver refuses is undone there; the other GPUs have theirs.
TEST_F(MigManagerBed, AGpuThatCannotBeChangedHidesNoOthers) {
  ASSERT_NO_FATAL_FAILURE(make_gpus(kThreeA100));
  start_agent();
  until_mig([](const Json& mig) { return mig["state"] == "idle"; });
  sim_node({"fail", "nvmlGpuInstanceCreateComputeInstance", "999", "--gpu", "1"});
  label("all-3g.20gb");
  ASSERT_TRUE(until_state("failed"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.20gb", 4}}));
  ASSERT_TRUE(until([&] { return condition().value("reason", "") == "Failed"; }, "the condition says so"));
  const std::string message = condition().value("message", "");
  EXPECT_THAT(message, HasSubstr("GPU 1: create compute instance"));
  EXPECT_THAT(message, HasSubstr("nvmlGpuInstanceCreateComputeInstance"));
  EXPECT_THAT(message, HasSubstr("the layout is as before"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("GPU 0"))) << message;
  sim_node({"clear"});
  ASSERT_TRUE(until_state("success"));
  EXPECT_EQ(layout(), (std::map<std::string, int>{{"3g.20gb", 6}}));
}

constexpr const char* kWrites[] = {"nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy",
                                   "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance",
                                   "nvmlDeviceSetMigMode"};

// Promise: mig/manager: Whatever call fails or kills the agent, the label is reached and no held instance is lost.
TEST_F(MigManagerBed, RandomLabelsFaultsAndKillsLoseNoHeldInstance) {
  const char* asked = std::getenv("TRANCHE_MIG_CHANGES");  // 10,000 by hand
  const int changes = asked == nullptr ? 12 : std::atoi(asked);
  ASSERT_NO_FATAL_FAILURE(
      make_gpus("topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: [1g.5gb]}\n  - {profile: H200, mig: []}\n"));
  fs::create_directories(in("mig"));
  // Every configuration keeps one 1g.5gb on the A100: the pod's.
  write("mig/config.yaml", R"(version: v1
mig-configs:
  a: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 7}}, {devices: [1], mig-enabled: true, mig-devices: {3g.71gb: 2}}]
  b: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 1, 3g.20gb: 1}}, {devices: [1], mig-enabled: false}]
  c: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1}}, {devices: [1], mig-enabled: true, mig-devices: {1g.18gb: 7}}]
  d: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 1, 2g.10gb: 2}}, {devices: [1], mig-enabled: true, mig-devices: {7g.141gb: 1}}]
)");
  const std::map<std::string, std::map<std::string, int>> wanted{
      {"a", {{"1g.5gb", 7}, {"3g.71gb", 2}}},
      {"b", {{"1g.5gb", 1}, {"3g.20gb", 1}}},
      {"c", {{"1g.5gb", 2}, {"2g.10gb", 1}, {"1g.18gb", 7}}},
      {"d", {{"1g.5gb", 1}, {"2g.10gb", 2}, {"7g.141gb", 1}}}};
  const Strings agent_words{"--mig-config-file", in("mig/config.yaml")};
  Program* agent = &start_agent(agent_words);
  ASSERT_TRUE(until_slots(kOne, 1));
  const std::string held = admit("held", kOne).envs.at("NVIDIA_VISIBLE_DEVICES");
  int killed = 0;
  const auto start_again = [&] {
    if (agent->running()) return;
    ++killed;
    agent = &start_agent(agent_words);
  };
  const char* seed = std::getenv("TRANCHE_SEED");
  std::mt19937 random(seed == nullptr ? 20261124u : static_cast<std::uint32_t>(std::strtoul(seed, nullptr, 10)));
  std::map<std::string, int> asked_for;  // faults
  const auto any = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int change = 0; change < changes; ++change) {
    const std::string name(1, static_cast<char>('a' + any(3)));
    const std::string call = kWrites[any(4)];
    const std::string skip = std::to_string(any(5));
    const int kind = any(4);
    SCOPED_TRACE("change " + std::to_string(change) + " to " + name + ", fault " + std::to_string(kind) + " at " +
                 call + " after " + skip);
    if (agent->running()) drop_ended();
    sim_node({"clear"});
    if (kind == 0) sim_node({"kill", call, "--skip", skip, "--times", "1"});
    if (kind == 1) sim_node({"kill-after", call, "--skip", skip, "--times", "1"});
    if (kind == 2) sim_node({"fail", call, "999", "--skip", skip, "--times", std::to_string(1 + any(1))});
    if (kind == 3) sim_node({"lie", any(1) == 0 ? kWrites[0] : kWrites[1], "--skip", skip, "--times", "1"});
    ++asked_for[std::array{"kill", "kill-after", "fail", "lie", "none"}.at(static_cast<std::size_t>(kind))];
    label(name);
    const bool reached = until(
        [&] {
          start_again();
          return state() == "success" && layout() == wanted.at(name);
        },
        "the node is as the label asks");
    ASSERT_TRUE(reached) << "state " << state() << ", layout " << ::testing::PrintToString(layout()) << "\n"
                         << agent->err().substr(agent->err().size() - std::min<std::size_t>(agent->err().size(), 3000));
    ASSERT_THAT(shown_node(), HasSubstr(held));
    start_again();
  }
  RecordProperty("killed", killed);
  for (const auto& [fault, count] : asked_for) RecordProperty(fault, count);
  EXPECT_GT(killed, 0);
}

}  // namespace
}  // namespace tranche::e2e
