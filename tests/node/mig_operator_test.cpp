// `nvidia-mig-manager` by name, as the GPU Operator starts it: it pauses the operator's pods by their labels,
// partitions, and puts the labels back.
#include <csignal>
#include <filesystem>
#include <map>

#include "node/bed.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kNodesPath = "/api/v1/nodes";
constexpr const char* kPods = "/api/v1/namespaces/gpu-operator/pods";
const std::string kDeploy = "nvidia.com/gpu.deploy.";
const std::string kPaused = "paused-for-mig-change";

class MigOperatorBed : public NodeBed {
 protected:
  MigOperatorBed() : api_(sim::ApiServer::start()) {
    write("kubeconfig", api_->kubeconfig(""));
    fs::create_directories(in("host/var/lib/kubelet/pod-resources"));
    fs::create_directories(in("config"));
    fs::create_symlink(in("run/pod-resources.sock"), in("host/var/lib/kubelet/pod-resources/kubelet.sock"));
    fs::create_symlink(tranche(), in("nvidia-mig-manager"));
    write("config/config.yaml",
          "version: v1\nmig-configs:\n  mine: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}]\n"
          "  small: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n");
    environment_["NODE_NAME"] = "n1";
    environment_["KUBECONFIG"] = in("kubeconfig");
    environment_["CONFIG_FILE"] = in("config/config.yaml");
    environment_["HOST_ROOT_MOUNT"] = in("host");
    environment_["DEFAULT_GPU_CLIENTS_NAMESPACE"] = "gpu-operator";
    environment_["DRIVER_ROOT_CTR_PATH"] = "/driver-root";  // as the operator's script says, and does not mount
  }
  void make(const std::string& mig) {
    write("node/node.yaml", "topology: pcie\ngpus:\n  - {profile: A100-PCIE-40GB, mig: [" + mig + "]}\n");
    api_->serve_collection(kPods);
    api_->put(kNodesPath, "n1", "{}");
    label(kDeploy + "mig-manager", "true");
    for (const char* name : {"device-plugin", "dcgm"}) label(kDeploy + name, "true");
    label(kDeploy + "gpu-feature-discovery", "false");  // an administrator's
    put_pod("plugin", "nvidia-device-plugin-daemonset");
    put_pod("validator", "nvidia-operator-validator");
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
  }
  void put_pod(const std::string& name, const std::string& app) {
    api_->put(kPods, name, R"({"metadata":{"labels":{"app":")" + app + R"("}},"spec":{"nodeName":"n1"}})");
  }
  void label(const std::string& key, const std::string& value) {
    api_->put(kNodesPath, "n1", R"({"metadata":{"labels":{")" + key + R"(":")" + value + R"("}}})");
  }
  std::string labelled(const std::string& key) const {
    const Json node = Json::parse(api_->object(kNodesPath, "n1"), nullptr, false);
    return node.value(Json::json_pointer("/metadata/labels"), Json::object()).value(key, std::string());
  }
  bool until_label(const std::string& key, const std::string& value) {
    return until([&] { return labelled(key) == value; }, key + "=" + value);
  }
  bool until_state(const std::string& state) { return until_label("nvidia.com/mig.config.state", state); }
  Program& start_manager() { return start({in("nvidia-mig-manager")}); }

  std::unique_ptr<sim::ApiServer> api_;
};

// Promise: mig/operator: `nvidia-mig-manager` pauses the operator's pods, partitions, and puts their labels back.
// labels back.
TEST_F(MigOperatorBed, PausesTheOperatorsPodsForAChange) {
  ASSERT_NO_FATAL_FAILURE(make(""));
  start_manager();
  label("nvidia.com/mig.config", "mine");
  ASSERT_TRUE(until_label(kDeploy + "device-plugin", kPaused));
  EXPECT_EQ(labelled(kDeploy + "dcgm"), kPaused);
  EXPECT_EQ(labelled(kDeploy + "gpu-feature-discovery"), "false") << "an administrator's value stays";
  EXPECT_EQ(labelled("nvidia.com/mig.config.state"), "pending");
  EXPECT_THAT(shown_node(), ::testing::Not(HasSubstr("3g.20gb"))) << "the plugin's pod is still there";
  api_->remove(kPods, "plugin");
  ASSERT_TRUE(until_state("success"));
  EXPECT_THAT(shown_node(), HasSubstr("3g.20gb"));
  EXPECT_TRUE(until_label(kDeploy + "device-plugin", "true"));
  EXPECT_EQ(labelled(kDeploy + "dcgm"), "true");
  EXPECT_EQ(labelled(kDeploy + "gpu-feature-discovery"), "false");
  EXPECT_TRUE(until([&] { return api_->object(kPods, "validator").empty(); }, "the validator runs again"));
}

// Promise: mig/operator: While a change waits for a tenant, the operator's pods keep running.
TEST_F(MigOperatorBed, WaitsForATenantWithoutPausing) {
  ASSERT_NO_FATAL_FAILURE(make("3g.20gb"));
  api_->remove(kPods, "plugin");
  write("config.yaml", "version: v1\nflags:\n  migStrategy: mixed\n");
  start_node({"--node-name", "n1"});  // the device plugin
  ASSERT_TRUE(kubelet().wait_for_devices(
      "nvidia.com/mig-3g.20gb", [](const sim::ResourceView& v) { return v.healthy() == 1; }, kSoon));
  EXPECT_TRUE(kubelet().admit(sim::one_container_pod("stays", "nvidia.com/mig-3g.20gb", 1)).admitted);
  Program& manager = start_manager();
  label("nvidia.com/mig.config", "small");
  ASSERT_TRUE(until_says(manager, "pod default/stays"));
  EXPECT_EQ(labelled(kDeploy + "device-plugin"), "true");
  EXPECT_EQ(labelled("nvidia.com/mig.config.state"), "pending");
  EXPECT_THAT(shown_node(), HasSubstr("3g.20gb"));
  kubelet().remove_pod("default/stays");
  ASSERT_TRUE(until_state("success"));
  EXPECT_TRUE(until_label(kDeploy + "device-plugin", "true"));
}

// Promise: mig/operator: Labels that a killed manager has left paused are put back by the next one.
TEST_F(MigOperatorBed, AKilledManagersLabelsArePutBack) {
  ASSERT_NO_FATAL_FAILURE(make(""));
  Program& first = start_manager();
  label("nvidia.com/mig.config", "mine");
  ASSERT_TRUE(until_label(kDeploy + "device-plugin", kPaused));
  stop(first, SIGKILL, 128 + SIGKILL);
  label("nvidia.com/mig.config", "all-enabled");  // as the GPU is
  Program& second = start_manager();
  ASSERT_TRUE(until_state("success"));
  EXPECT_TRUE(until_label(kDeploy + "device-plugin", "true"));
  stop(second, SIGTERM, 0);
}

// Promise: mig/operator: A change that fails puts the labels back; the state is failed and the log has the reason.
TEST_F(MigOperatorBed, AFailurePutsTheLabelsBack) {
  ASSERT_NO_FATAL_FAILURE(make(""));
  api_->remove(kPods, "plugin");
  sim_node({"fail", "nvmlDeviceCreateGpuInstanceWithPlacement", "999"});
  Program& manager = start_manager();
  label("nvidia.com/mig.config", "mine");
  ASSERT_TRUE(until_state("failed"));
  EXPECT_TRUE(until_says(manager, "nvmlDeviceCreateGpuInstanceWithPlacement"));
  EXPECT_TRUE(until_says(manager, kPaused)) << "they were paused";
  EXPECT_TRUE(until_label(kDeploy + "device-plugin", "true"));
  sim_node({"clear"});
  label("nvidia.com/mig.config", "small");
  ASSERT_TRUE(until_state("success"));
  EXPECT_TRUE(until_label(kDeploy + "dcgm", "true"));
}

TEST_F(MigOperatorBed, NeedsANodeNameAndSaysThatItDoesNotRestartNodes) {
  ASSERT_NO_FATAL_FAILURE(make(""));
  environment_["WITH_REBOOT"] = "true";
  EXPECT_TRUE(until_says(start_manager(), "mig.no_reboot"));
  environment_["NODE_NAME"] = "";
  Program& nameless = start_manager();
  EXPECT_EQ(finish(nameless), 1);
  EXPECT_THAT(nameless.err(), HasSubstr("$NODE_NAME"));
}

}  // namespace
}  // namespace tranche::e2e
