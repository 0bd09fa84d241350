// `tranche plan --pods` and `--against` as people call them, and against what the node really gives.
#include "node/bed.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string pod_text(const std::string& name, int slots) {
  return "kind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [{name: main, resources: {limits: {" + kGpu +
         ": " + std::to_string(slots) + "}}}]}\n---\n";
}

// What an API server's pod has beside its name.
std::string more_of_pod(const std::string& node, int slots, const std::string& created) {
  return R"({"metadata":{"creationTimestamp":")" + created + R"("},"spec":{)" +
         (node.empty() ? "" : R"("nodeName":")" + node + R"(",)") +
         R"("containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":")" + std::to_string(slots) +
         R"("}}}]}})";
}

class PlanBed : public NodeBed {
 protected:
  Program& plan(Strings more, const Environment& environment = {}) {
    Program& program = start_tranche("plan", std::move(more), environment);
    EXPECT_NE(finish(program), -1);
    return program;
  }
  Json document(const Program& program) {
    auto json = Json::parse(program.out(), nullptr, false);
    EXPECT_TRUE(json.is_object()) << program.out() << program.err();
    return json;
  }
};
using PlanPods = PlanBed;
using PlanAgainst = PlanBed;

// Promise: plan/simulate: The exit status shows whether all pods land and whether plans differ.
TEST_F(PlanPods, ExitStatusSaysWhetherAllLand) {
  make_node(2);
  write("config.yaml", sharing("mps", 20));
  write("pods.yaml", pod_text("a", 10) + pod_text("b", 15));
  Program& fits = plan({"--pods", in("pods.yaml")});
  EXPECT_EQ(fits.code(), 0) << fits.err();
  EXPECT_THAT(fits.out(),
              AllOf(HasSubstr("2 pods: 2 land\n"), HasSubstr("default/b"), HasSubstr("Remaining capacity")));
  write("pods.yaml", pod_text("a", 15) + pod_text("b", 15) + pod_text("c", 10));
  Program& in_pieces = plan({"--pods", in("pods.yaml")});
  EXPECT_EQ(in_pieces.code(), 3);
  EXPECT_THAT(in_pieces.out(), HasSubstr("10 free slots are stranded"));
}

TEST_F(PlanPods, AnObjectOfAnUnknownKindIsNamedWithExitStatus3) {
  make_node(1);
  write("config.yaml", sharing("mps", 4));
  write("pods.yaml", pod_text("a", 1) + "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: t}\n");
  Program& unknown = plan({"--pods", in("pods.yaml"), "--json"});
  EXPECT_EQ(unknown.code(), 3);
  EXPECT_THAT(unknown.err(), HasSubstr("is \"Job\" of batch.volcano.sh/v1alpha1, which Tranche does not know"));
  const Json json = document(unknown);
  EXPECT_EQ(json["simulation"]["lands"], 1);
  EXPECT_EQ(json["unknownObjects"][0]["name"], "t");
}

TEST_F(PlanPods, AreReadFromTheStandardInput) {
  make_node(1);
  write("config.yaml", sharing("mps", 4));
  write("pods.yaml", pod_text("piped", 2));
  Program& piped =
      start({"/bin/sh", "-c", "exec \"$0\" plan --config \"$1\" --driver-root-ctr-path \"$2\" --pods - <\"$3\"",
             tranche(), config_path_, in("driver"), in("pods.yaml")});
  EXPECT_EQ(finish(piped), 0) << piped.err();
  EXPECT_THAT(piped.out(), HasSubstr("default/piped"));
}

TEST_F(PlanPods, ThatCannotBeReadAreRefusedWithTheirPlace) {
  make_node(1);
  write("config.yaml", sharing("mps", 4));
  write("pods.yaml", pod_text("a", 1) + "kind: Pod\nmetadata: {name: b}\nspec: {}\n");
  Program& broken = plan({"--pods", in("pods.yaml")});
  EXPECT_EQ(broken.code(), 2);
  EXPECT_EQ(broken.out(), "");
  EXPECT_THAT(broken.err(), HasSubstr(in("pods.yaml") + ":7:7: error: spec: has no containers"));
  Program& missing = plan({"--pods", in("nowhere.yaml")});
  EXPECT_EQ(missing.code(), 2);
  EXPECT_THAT(missing.err(), HasSubstr(in("nowhere.yaml")));
}

// The plan's word against the node's deed: the same pods, admitted one after another by kubelet's double.
// Promise: plan/simulate: Simulated pods land as on the real agent.
TEST_F(PlanPods, LandAsOnTheNode) {
  ASSERT_NO_FATAL_FAILURE(start_all(4, 20));
  const std::vector<int> sizes{10, 15, 10, 15, 15, 10, 5, 20, 5, 3};
  std::string text;
  for (std::size_t i = 0; i < sizes.size(); ++i) text += pod_text("p" + std::to_string(i), sizes[i]);
  write("pods.yaml", text);
  const Json simulation = document(plan({"--pods", in("pods.yaml"), "--json"}))["simulation"];
  ASSERT_EQ(simulation["pods"].size(), sizes.size());
  std::size_t admitted_pods = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Json& said = simulation["pods"][i];
    const auto done =
        kubelet().admit(sim::one_container_pod("p" + std::to_string(i), kGpu, static_cast<std::uint64_t>(sizes[i])));
    EXPECT_EQ(done.admitted, said["fate"] == "lands") << said << done.message;
    if (!done.admitted) {
      if (said["fate"] == "refused") {
        EXPECT_THAT(done.message, HasSubstr(said["why"][0].get<std::string>()));
      }
      continue;
    }
    ++admitted_pods;
    const Json& on = said["holdings"][0]["devices"];
    ASSERT_EQ(on.size(), 1u);
    for (const auto& slot : done.containers[0].slots.at(kGpu))
      EXPECT_THAT(slot, HasSubstr(on[0]["uuid"].get<std::string>()));
    EXPECT_THAT(done.containers[0].envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
                HasSubstr(std::to_string(on[0]["share"]["memoryMiB"].get<std::uint64_t>()) + "M"));
  }
  EXPECT_EQ(admitted_pods, simulation["lands"]);
  EXPECT_LT(admitted_pods, sizes.size()) << "some must not land, or this shows little";
}

TEST_F(PlanPods, OfAClusterAreThoseOfTheNodeAndThoseThatWait) {
  const auto api = sim::ApiServer::start();
  make_node(1);
  write("config.yaml", sharing("mps", 10));
  write("kubeconfig", api->kubeconfig(""));
  api->put_pod("default", "young", more_of_pod("", 3, "2026-01-03T00:00:00Z"));
  api->put_pod("default", "old", more_of_pod("", 5, "2026-01-02T00:00:00Z"));
  api->put_pod("default", "here", more_of_pod("n1", 4, "2026-01-04T00:00:00Z"));
  api->put_pod("default", "there", more_of_pod("n2", 9, "2026-01-01T00:00:00Z"));
  Program& program = plan({"--pods", "cluster", "--kubeconfig", in("kubeconfig"), "--json"}, {{"NODE_NAME", "n1"}});
  EXPECT_EQ(program.code(), 3) << program.err();
  const Json simulation = document(program)["simulation"];
  std::vector<std::string> order;
  for (const Json& pod : simulation["pods"])
    order.push_back(pod["name"].get<std::string>() + " " + pod["fate"].get<std::string>());
  EXPECT_EQ(order, (std::vector<std::string>{"here lands", "old lands", "young waits"}));
  for (const auto& request : api->requests()) EXPECT_EQ(request.method, "GET");
}

TEST_F(PlanPods, AClusterThatDoesNotAnswerIsAFailure) {
  const auto api = sim::ApiServer::start();
  make_node(1);
  write("config.yaml", sharing("mps", 10));
  write("kubeconfig", api->kubeconfig(""));
  api->refuse(1, 403, R"({"kind":"Status","code":403,"reason":"Forbidden","message":"pods is forbidden"})",
              [](const sim::ApiRequest&) { return true; });
  Program& denied = plan({"--pods", "cluster", "--kubeconfig", in("kubeconfig")});
  EXPECT_EQ(denied.code(), 1);
  EXPECT_THAT(denied.err(), HasSubstr("the API server does not list pods: pods is forbidden (403)"));
  Program& outside = plan({"--pods", "cluster"});
  EXPECT_EQ(outside.code(), 1);
  EXPECT_THAT(outside.err(), HasSubstr("--kubeconfig"));
}

// Promise: plan/simulate: The exit status shows whether all pods land and whether plans differ.
TEST_F(PlanAgainst, ExitStatusSaysWhetherAnythingDiffers) {
  make_node(2);
  write("config.yaml", sharing("mps", 20));
  write("other.yaml", "# the same in other words\n" + sharing("mps", 20));
  Program& same = plan({"--against", in("other.yaml")});
  EXPECT_EQ(same.code(), 0) << same.out() << same.err();
  EXPECT_THAT(same.out(), HasSubstr("do not differ\n"));
  write("other.yaml", sharing("mps", 10));
  write("pods.yaml", pod_text("a", 10));
  Program& text = plan({"--against", in("other.yaml"), "--pods", in("pods.yaml")});
  EXPECT_EQ(text.code(), 3);
  EXPECT_THAT(text.out(),
              AllOf(HasSubstr("from " + in("other.yaml") + " to " + config_path_), HasSubstr("slots of a device"),
                    HasSubstr("Pods that land differently\n  default/a\n"), Not(HasSubstr("do not differ"))));
  const Json json = document(plan({"--against", in("other.yaml"), "--pods", in("pods.yaml"), "--json"}));
  EXPECT_EQ(json["against"]["file"], in("other.yaml"));
  EXPECT_EQ(json["against"]["simulation"]["lands"], 1);
  EXPECT_EQ(json["simulation"]["lands"], 1);
  EXPECT_FALSE(json["against"]["differences"].empty());
  EXPECT_TRUE(json.contains("resources")) << "the plan stays where it was";
}

TEST_F(PlanAgainst, ASecondFileThatCannotBeUsedIsSaid) {
  make_node(1);
  write("config.yaml", sharing("mps", 20));
  write("other.yaml", "version: v7\n");
  Program& broken = plan({"--against", in("other.yaml")});
  EXPECT_EQ(broken.code(), 2);
  EXPECT_THAT(broken.err(), HasSubstr(in("other.yaml") + ":1:10"));
}

}  // namespace
}  // namespace tranche::e2e
