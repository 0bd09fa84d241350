// The node agent with an API server: pods of this node, events, and what it does when there is none.
#include <csignal>
#include <filesystem>

#include "node/bed.h"
#include "node/http_get.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHere = R"({"spec":{"nodeName":"n1"},"status":{"phase":"Running","containerStatuses":[
{"name":"main","containerID":"containerd://c1","ready":true,"started":true,"state":{"running":{}}}]}})";
constexpr const char* kGoing =
    R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30}})";

class NodeKubernetes : public NodeBed {
 protected:
  NodeKubernetes() : api_(sim::ApiServer::start()) {}

  void start_with_cluster(int gpus, int slots, const std::string& node = "", const std::string& mps = "") {
    ASSERT_NO_FATAL_FAILURE(make_node(gpus, node));
    write("config.yaml", sharing("mps", slots, mps));
    write("token", "secret-token");
    write("kubeconfig", api_->kubeconfig(in("token")));
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    start_mps();
    start_tranche("node", {"--kubeconfig", in("kubeconfig")}, {{"NODE_NAME", "n1"}});
    ASSERT_TRUE(until_healthy(static_cast<std::uint64_t>(gpus) * static_cast<std::uint64_t>(slots)));
    until_node([](const Json& status) { return status["kubernetes"]["state"] == "watching"; });
  }
  // The newest event of this reason; null, and a failure, when none comes.
  Json event(const std::string& reason) {
    Json found;
    until_node([&](const Json&) {  // its status changes with every event that is written
      for (const auto& text : api_->events())
        if (Json one = Json::parse(text); one["reason"] == reason) found = one;
      return !found.is_null();
    });
    return found;
  }

  std::unique_ptr<sim::ApiServer> api_;
};

// Promise: api-server/pods: A deletion is reported with the pod's grant.
TEST_F(NodeKubernetes, AGrantHasTheUidAndContainerIdOfItsPodWhoseDeletionIsReportedWithIt) {
  ASSERT_NO_FATAL_FAILURE(start_with_cluster(1, 4));
  api_->put_pod("default", "a", kHere);
  admitted(kubelet(), "a", 2);
  const auto status =
      until_node([](const Json& s) { return s["grants"].size() == 1 && s["grants"][0].contains("podUid"); });
  EXPECT_THAT(status["grants"][0]["podUid"].get<std::string>(), HasSubstr("uid-a"));
  EXPECT_EQ(status["grants"][0]["containerId"], "containerd://c1");
  EXPECT_EQ(status["grants"][0]["deleting"], false);
  EXPECT_EQ(status["kubernetes"]["pods"], 1);
  EXPECT_EQ(status["kubernetes"]["node"], "n1");
  api_->put_pod("default", "a", kGoing);
  ASSERT_TRUE(until_says(*program("node"), "pod.deleting"));
  EXPECT_TRUE(until_says(*program("node"), status["grants"][0]["grant"].get<std::string>()));
  until_node([](const Json& s) { return s["grants"][0].value("deleting", false); });
}

// For seconds after its own start, kubelet lists no pod.
// Promise: kubelet/pod-resources: Running pods that kubelet does not list yet keep their names and their stop.
TEST_F(NodeKubernetes, PodsThatKubeletDoesNotListYetAfterItsStartKeepTheirGrants) {
  ASSERT_NO_FATAL_FAILURE(start_with_cluster(1, 4));
  for (const char* name : {"a", "b"}) {
    api_->put_pod("default", name, kHere);
    admitted(kubelet(), name, 1);
  }
  const auto both = [](const Json& s) {
    return s["grants"].size() == 2 && s["grants"][0].contains("podUid") && s["grants"][1].contains("podUid");
  };
  const auto status = until_node(both);
  kubelet().list_no_pods(true);
  for (int reads = 0; reads < 20; ++reads)  // each lets the agent ask kubelet
    EXPECT_EQ(until_node([](const Json&) { return true; })["grants"].size(), 2u);
  EXPECT_THAT(program("node")->err(), Not(HasSubstr("grant.ended")));
  api_->put_pod("default", "a", kGoing);
  EXPECT_TRUE(until_says(*program("node"), "pod.deleting"));
  until_node([](const Json& s) { return s["grants"][0].value("deleting", false); });

  stop(*program("node"), SIGKILL, 128 + SIGKILL);
  start_tranche("node", {"--kubeconfig", in("kubeconfig")}, {{"NODE_NAME", "n1"}});
  until_node([](const Json& s) { return s["kubernetes"]["state"] == "watching"; });
  kubelet().list_no_pods(false);
  until_node(both);
}

TEST_F(NodeKubernetes, LimitsThatAPodSetsForItselfAreReportedWhenTheyAreWrongOrWithoutEffect) {
  ASSERT_NO_FATAL_FAILURE(start_with_cluster(1, 4));
  Json pod = Json::parse(kHere);
  pod["spec"]["containers"] = {{{"name", "main"},
                                {"env",
                                 {{{"name", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}, {"value", "70"}},
                                  {{"name", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"}, {"value", "8192M"}}}}}};
  api_->put_pod("default", "a", pod.dump());
  admitted(kubelet(), "a", 1);
  const auto misread = event("MpsLimitNotUnderstood");
  EXPECT_EQ(misread["type"], "Warning");
  EXPECT_EQ(misread["involvedObject"]["name"], "a");
  EXPECT_THAT(misread["message"].get<std::string>(), HasSubstr("container main: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  EXPECT_THAT(misread["message"].get<std::string>(), HasSubstr("such as " + uuid(0) + "=4096M"));
  EXPECT_THAT(event("MpsLimitWithoutEffect")["message"].get<std::string>(), HasSubstr("more than the 25 %"));
  EXPECT_TRUE(until_says(*program("node"), "tenant.limit"));
}

TEST_F(NodeKubernetes, AProcessThatLiftsItsOwnLimitIsKeptOutAndItsPodIsReported) {
  ASSERT_NO_FATAL_FAILURE(start_with_cluster(1, 4));
  api_->put_pod("default", "a", kHere);
  auto grant = admitted(kubelet(), "a", 1);
  until_node([](const Json& s) { return s["grants"].size() == 1; });
  grant.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = "4096M";
  Program& process = start_cuda(grant, {"--hold"});
  EXPECT_NE(finish(process), 0);
  EXPECT_THAT(process.out(), HasSubstr("CUDA_ERROR_MPS_CONNECTION_FAILED"));
  const auto found = event("MpsLimitNotUnderstood");
  EXPECT_EQ(found["involvedObject"]["name"], "a");
  EXPECT_THAT(found["message"].get<std::string>(),
              HasSubstr("container main: MPS refused a process: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=\"4096M\""));
}

// A process of it that lives on (here one that kubelet's double knows nothing of) does not keep its way in.
// Promise: api-server/pods: The slots of a pod that ended are free in the status at once.
TEST_F(NodeKubernetes, TheEndpointOfADeletedPodIsRemovedAndItsClientsAreEnded) {
  ASSERT_NO_FATAL_FAILURE(start_with_cluster(1, 4));
  api_->put_pod("default", "a", kHere);
  const auto grant = admitted(kubelet(), "a", 2);
  until_node([](const Json& s) { return s["grants"].size() == 1; });
  Program& client = start_cuda(grant, {"--hold"});
  ASSERT_EQ(attached(client)["event"], "attached");
  kubelet().remove_pod("default/a");
  api_->delete_pod("default", "a");
  EXPECT_NE(finish(client), 0);
  const auto gone = [&] { return !std::filesystem::exists(endpoint_of(grant)); };
  EXPECT_TRUE(until(gone, "the endpoint is gone"));
  until_node([](const Json& s) { return s["grants"].empty() && s["resources"][0]["allocated"] == 0; });
}

TEST_F(NodeKubernetes, AGpuThatFallsAndRecoversIsReportedOnTheNode) {
  ASSERT_NO_FATAL_FAILURE(start_with_cluster(2, 4));
  sim_node({"gpu", "1", "lost"});
  const auto down = event("GpuUnhealthy");
  EXPECT_EQ(down["involvedObject"]["kind"], "Node");
  EXPECT_EQ(down["involvedObject"]["name"], "n1");
  EXPECT_EQ(down["type"], "Warning");
  EXPECT_THAT(down["message"].get<std::string>(), HasSubstr(uuid(1)));
  sim_node({"gpu", "1", "back"});
  EXPECT_EQ(event("GpuHealthy")["type"], "Normal");
}

TEST_F(NodeKubernetes, APoolThatFallsAndAConfigurationThatIsBrokenAreReportedOnTheNode) {
  ASSERT_NO_FATAL_FAILURE(start_with_cluster(1, 4));
  write("config.yaml", "version: v1\nsharing: [\n");
  EXPECT_THAT(event("ConfigRefused")["message"].get<std::string>(), HasSubstr(in("config.yaml") + ":"));
  write("config.yaml", sharing("mps", 4));
  event("ConfigApplied");
  stop(*program("mps"), SIGTERM, 0);
  event("MpsPoolDown");
  start_mps();
  event("MpsPoolServing");
}

// Promise: api-server/watch: A refused token is reported and pods are served.
TEST_F(NodeKubernetes, ATokenThatIsRefusedIsSaidAndPodsAreServedAllTheSame) {
  api_->take_token("another");
  ASSERT_NO_FATAL_FAILURE(make_node(1));
  write("config.yaml", sharing("mps", 4));
  write("token", "secret-token");
  write("kubeconfig", api_->kubeconfig(in("token")));
  ASSERT_NO_FATAL_FAILURE(start_kubelet());
  start_mps();
  start_tranche("node", {"--kubeconfig", in("kubeconfig"), "--node-name", "n1"});
  ASSERT_TRUE(until_healthy(4));
  const auto status = until_node([](const Json& s) { return s["kubernetes"]["state"] == "waiting"; });
  EXPECT_THAT(status["kubernetes"]["reason"].get<std::string>(), HasSubstr("401"));
  EXPECT_TRUE(kubelet().admit(sim::one_container_pod("a", kGpu, 2)).admitted);
  write("token", "another");
  until_node([](const Json& s) { return s["kubernetes"]["state"] == "watching"; });
  const auto& node = *program("node");
  EXPECT_EQ((node.err() + node.out()).find("secret-token"), std::string::npos);
}

TEST_F(NodeKubernetes, WithoutOneItIsOffWithTheReasonAndNothingElseIsMissing) {
  ASSERT_NO_FATAL_FAILURE(start_all(1, 4));
  const auto status = until_node([](const Json& s) { return s["kubernetes"]["state"] == "off"; });
  EXPECT_THAT(status["kubernetes"]["reason"].get<std::string>(), HasSubstr("--kubeconfig"));
  EXPECT_EQ(status["ready"], true);
}

TEST_F(NodeKubernetes, AKubeconfigThatIsWrongIsSaidWithItsLineAndTheNodeServes) {
  ASSERT_NO_FATAL_FAILURE(make_node(1));
  write("config.yaml", sharing("mps", 4));
  write("kubeconfig", "kind: Config\ncurrent-context: nowhere\n");
  ASSERT_NO_FATAL_FAILURE(start_kubelet());
  start_mps();
  start_tranche("node", {"--kubeconfig", in("kubeconfig"), "--node-name", "n1"});
  ASSERT_TRUE(until_healthy(4));
  const auto status = until_node([](const Json& s) { return s["kubernetes"]["state"] == "off"; });
  EXPECT_THAT(status["kubernetes"]["reason"].get<std::string>(), HasSubstr(in("kubeconfig") + ":2:18"));
}

TEST_F(NodeKubernetes, ItsRequestsAreCountedByVerbAndAnswer) {
  ASSERT_NO_FATAL_FAILURE(make_node(1));
  write("config.yaml", sharing("mps", 4));
  write("kubeconfig", api_->kubeconfig(""));
  Program& node = start_node({"--kubeconfig", in("kubeconfig"), "--node-name", "n1", "--listen", "127.0.0.1:0"});
  until_node([](const Json& s) { return s["kubernetes"]["state"] == "watching"; });
  EXPECT_THAT(http_get(pages_of(node), "/metrics"),
              HasSubstr("tranche_kube_requests_total{verb=\"list\",code=\"200\"} 1\n"));
}

// Promise: api-server/condition: The condition patch changes our entry only.
TEST_F(NodeKubernetes, TheConditionOfTheNodeIsWrittenAsAPatchOfItsOwnEntry) {
  ASSERT_NO_FATAL_FAILURE(start_with_cluster(1, 4));
  std::optional<sim::ApiRequest> patch;
  until_node([&](const Json&) {  // its status changes with every answer
    for (const auto& request : api_->requests())
      if (request.method == "PATCH" && request.path == "/api/v1/nodes/n1/status") patch = request;
    return patch.has_value();
  });
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->content_type, "application/strategic-merge-patch+json");
  const Json conditions = Json::parse(patch->body).at("status").at("conditions");
  ASSERT_EQ(conditions.size(), 1u);
  EXPECT_EQ(conditions[0]["type"], "TrancheReady");
  EXPECT_NE(conditions[0]["reason"], "");
}

}  // namespace
}  // namespace tranche::e2e
