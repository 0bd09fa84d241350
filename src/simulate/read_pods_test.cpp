#include <gmock/gmock.h>

#include "base/text.h"
#include "simulate/land.h"

namespace tranche::simulate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::string_view kPod = R"(apiVersion: v1
kind: Pod
metadata: {name: a, namespace: team}
spec:
  nodeName: n1
  initContainers:
  - {name: first, resources: {limits: {nvidia.com/gpu: 2}}}
  - {name: beside, restartPolicy: Always, resources: {limits: {nvidia.com/gpu: "1"}}}
  containers:
  - name: main
    image: x
    resources:
      limits: {cpu: 2, memory: 4Gi, nvidia.com/gpu: 3, hugepages-2Mi: 4Mi, example.com/nic: 0}
      requests: {cpu: 1, nvidia.com/gpu: 3}
status: {phase: Running}
)";

std::vector<PodAsk> pods_of(std::string_view text) {
  const auto read = read_pods(text, "f");
  for (const auto& problem : read.problems) ADD_FAILURE() << to_string(problem);
  return read.pods;
}

std::vector<std::string> names_of(std::string_view text) {
  std::vector<std::string> names;
  for (const auto& pod : pods_of(text)) names.push_back(pod.full_name());
  return names;
}

std::vector<std::string> problems_of(std::string_view text) {
  std::vector<std::string> problems;
  for (const auto& problem : read_pods(text, "f").problems) problems.push_back(to_string(problem));
  return problems;
}

// A workload of one container that asks `count`.
std::string workload(const std::string& kind, const std::string& name, const std::string& spec, int count = 1) {
  return "kind: " + kind + "\nmetadata: {name: " + name + "}\nspec:\n  " + spec +
         "\n  template: {spec: {containers: [{name: m, resources: {limits: {nvidia.com/gpu: " + std::to_string(count) +
         "}}}]}}\n---\n";
}

TEST(ReadPods, APodIsReadWithItsContainersInTheOrderOfKubelet) {
  const auto pods = pods_of(kPod);
  ASSERT_EQ(pods.size(), 1u);
  EXPECT_EQ(pods[0].full_name(), "team/a");
  EXPECT_EQ(pods[0].node_name, "n1");
  EXPECT_FALSE(pods[0].over);
  ASSERT_EQ(pods[0].containers.size(), 3u);
  EXPECT_EQ(pods[0].containers[0].role, Role::kInit);
  EXPECT_EQ(pods[0].containers[1].role, Role::kSidecar);
  EXPECT_EQ(pods[0].containers[2].role, Role::kMain);
  EXPECT_THAT(pods[0].containers[1].resources, ElementsAre(Pair("nvidia.com/gpu", 1u)));
  EXPECT_THAT(pods[0].containers[2].resources, ElementsAre(Pair("nvidia.com/gpu", 3u)))
      << "CPU, memory and huge pages are no extended resources, and none of a device is none";
}

TEST(ReadPods, DocumentsAndListsAreTakenApartInOrder) {
  const std::string one = "kind: Pod\nmetadata: {name: b}\nspec: {containers: [{name: m}]}\n---\n# nothing\n---\n";
  const std::string list =
      "kind: List\nitems:\n- {kind: Service, metadata: {name: s}}\n"
      "- {kind: Pod, metadata: {name: c}, spec: {containers: [{name: m}]}}\n---\n";
  const std::string pod_list =
      "kind: PodList\nitems: [{metadata: {name: a}, spec: {containers: [{name: m}]}, status: {phase: Succeeded}}]\n";
  const auto pods = pods_of(one + list + pod_list);
  ASSERT_EQ(pods.size(), 3u);
  EXPECT_EQ(pods[0].full_name(), "default/b");
  EXPECT_EQ(pods[1].full_name(), "default/c");
  EXPECT_EQ(pods[2].full_name(), "default/a");
  EXPECT_TRUE(pods[2].over);
  EXPECT_EQ(pods[1].place, (Place{"f", 10, 3}));
}

TEST(ReadPods, JsonIsReadToo) {
  EXPECT_THAT(names_of(R"({"kind": "Pod", "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}})"),
              ElementsAre("default/a"));
}

TEST(ReadPods, AWorkloadStandsForItsReplicas) {
  EXPECT_THAT(names_of(workload("Deployment", "web", "replicas: 2")), ElementsAre("default/web-0", "default/web-1"));
  EXPECT_THAT(names_of(workload("StatefulSet", "db", "serviceName: x")), ElementsAre("default/db-0"));
  EXPECT_THAT(names_of(workload("DaemonSet", "agent", "replicas: 7")), ElementsAre("default/agent-0"));
  EXPECT_THAT(names_of(workload("Job", "train", "parallelism: 3\n  completions: 2")),
              ElementsAre("default/train-0", "default/train-1"));
  EXPECT_THAT(names_of(workload("Job", "now", "parallelism: 1") + workload("Job", "later", "suspend: true")),
              ElementsAre("default/now-0"));
  EXPECT_THAT(names_of("kind: CronJob\nmetadata: {name: night}\nspec: {jobTemplate: {spec: {parallelism: 2, template: "
                       "{spec: {containers: [{name: m}]}}}}}\n"),
              ElementsAre("default/night-0", "default/night-1"));
}

TEST(ReadPods, AWorkloadWhosePodsAreThereTooIsNotCountedTwice) {
  const std::string pod =
      "kind: Pod\nmetadata: {name: web-x, ownerReferences: [{kind: ReplicaSet, name: web-1}]}\n"
      "spec: {containers: [{name: m}]}\n---\n";
  const std::string set =
      "kind: ReplicaSet\nmetadata: {name: web-1, ownerReferences: [{kind: Deployment, name: web}]}\n"
      "spec: {replicas: 3, template: {spec: {containers: [{name: m}]}}}\n---\n";
  EXPECT_THAT(
      names_of(pod + set + workload("Deployment", "web", "replicas: 3") + workload("Deployment", "other", "a: 1")),
      ElementsAre("default/web-x", "default/other-0"));
}

TEST(ReadPods, FaultsNameThePlaceTheFieldAndTheRemedy) {
  const auto with = [](std::string resources) {
    return "kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: m\n    resources: " + resources + "\n";
  };
  const std::string path = "spec.containers[0].resources.";
  EXPECT_THAT(problems_of(with("{limits: {nvidia.com/gpu: 1.5}}")),
              ElementsAre("f:6:42: error: " + path +
                          "limits.nvidia.com/gpu: must be a whole number of devices, but is not whole; write for "
                          "example 1"));
  EXPECT_THAT(problems_of(with("{limits: {nvidia.com/gpu: many}}")), ElementsAre(HasSubstr("but is \"many\"")));
  EXPECT_THAT(problems_of(with("{limits: {nvidia.com/gpu: [1]}}")), ElementsAre(HasSubstr("but is a list")));
  EXPECT_THAT(problems_of(with("{requests: {nvidia.com/gpu: 2}}")),
              ElementsAre(AllOf(
                  HasSubstr("f:6:44: error: " + path + "requests.nvidia.com/gpu: is asked for under requests only"),
                  HasSubstr("write nvidia.com/gpu: 2 under resources.limits"))));
  EXPECT_THAT(problems_of(with("{limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 2}}")),
              ElementsAre(HasSubstr("is 2, but its limit is 1")));
  EXPECT_THAT(problems_of(with("{limits: 4}")),
              ElementsAre(HasSubstr("resources.limits: must be a mapping, but is the number 4")));
}

TEST(ReadPods, WhatMakesNoPodsIsSaid) {
  EXPECT_THAT(problems_of(""), ElementsAre(HasSubstr("f: error: holds no pods; write kind: Pod")));
  EXPECT_THAT(problems_of("kind: Service\nmetadata: {name: s}\n"), ElementsAre(HasSubstr("holds no pods")));
  EXPECT_THAT(problems_of("[1]\n"), ElementsAre(HasSubstr("must be an object of Kubernetes, but is a list")));
  EXPECT_THAT(problems_of("a: 1\n"), ElementsAre(HasSubstr("f:1:1: error: has no kind")));
  EXPECT_THAT(problems_of("kind: Pod\nmetadata: {name: a}\n"), ElementsAre(HasSubstr("has no spec")));
  EXPECT_THAT(problems_of("kind: Pod\nspec: {containers: [{name: m}]}\n"),
              ElementsAre(HasSubstr("has no metadata.name")));
  EXPECT_THAT(problems_of("kind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n"),
              ElementsAre(HasSubstr("f:3:7: error: spec: has no containers")));
  EXPECT_THAT(problems_of("kind: Pod\nmetadata: {name: a}\nspec: {containers: [{image: x}]}\n"),
              ElementsAre(HasSubstr("spec.containers[0]: is a container without a name")));
  EXPECT_THAT(problems_of("kind: List\nitems: [{kind: List, items: []}]\n"),
              ElementsAre(HasSubstr("a list within a list")));
  EXPECT_THAT(problems_of("kind: Pod\nmetadata: {name: a\n"), ElementsAre(HasSubstr("is not valid YAML")));
}

TEST(ReadPods, AKindThatMakesPodsInItsOwnWayIsAWarning) {
  const auto rollout = read_pods(workload("Rollout", "web", "replicas: 2") + std::string(kPod), "f");
  ASSERT_EQ(rollout.problems.size(), 1u);
  EXPECT_THAT(to_string(rollout.problems[0]),
              HasSubstr("f:1:7: warning: kind: is \"Rollout\", which Tranche does not know"));
  EXPECT_EQ(rollout.pods.size(), 1u);
  const auto misspelled = read_pods("kind: Deploymnt\n---\n" + std::string(kPod), "f");
  ASSERT_EQ(misspelled.problems.size(), 1u);
  EXPECT_THAT(to_string(misspelled.problems[0]), HasSubstr("did you mean Deployment?"));
}

// Promise: plan/simulate: An object of an unknown kind is named, and the other pods are read.
TEST(ReadPods, AKindThatIsNotOfKubernetesIsNamed) {
  const std::string volcano =
      "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}\nspec: {tasks: []}\n---\n";
  const auto read = read_pods(volcano + std::string(kPod), "f");
  ASSERT_EQ(read.problems.size(), 1u);
  EXPECT_THAT(to_string(read.problems[0]), HasSubstr("f:2:7: warning: kind: is \"Job\" of batch.volcano.sh/v1alpha1"));
  EXPECT_EQ(read.pods.size(), 1u);
  EXPECT_THAT(read.unknown, ElementsAre(UnknownObject{"batch.volcano.sh/v1alpha1", "Job", "default", "train"}));
  EXPECT_EQ(read_pods(volcano, "f").problems.size(), 1u) << "a text of unknown objects alone is no error";
  const std::string list = "apiVersion: kubeflow.org/v1\nkind: PyTorchJobList\nitems: [{metadata: {name: a}}]\n---\n";
  EXPECT_THAT(read_pods(list, "f").unknown,
              ElementsAre(UnknownObject{"kubeflow.org/v1", "PyTorchJob", "default", "a"}));
  const auto with_pods = read_pods(volcano +
                                       "kind: Pod\nmetadata: {name: a, ownerReferences: [{kind: Job, name: train}]}\n"
                                       "spec: {containers: [{name: m}]}\n",
                                   "f");
  EXPECT_TRUE(with_pods.unknown.empty() && with_pods.problems.empty()) << "its pods count";
}

TEST(ReadPods, ClaimsOfAPodAreNamedAndClaimObjectsSkipped) {
  const std::string text =
      "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaimTemplate\nmetadata: {name: t}\nspec: {spec: {devices: "
      "{requests: [{deviceClassName: x}]}}}\n---\n"
      "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec: {}\n---\n"
      "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: d}\nspec: {}\n---\n"
      "kind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: m}], resourceClaims: "
      "[{name: gpu, resourceClaimTemplateName: t}, {name: nic, resourceClaimName: c}]}}}\n";
  const auto pods = pods_of(text);
  ASSERT_EQ(pods.size(), 1u);
  EXPECT_THAT(pods[0].claims, ElementsAre("gpu", "nic"));
  EXPECT_THAT(problems_of("kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: m}], resourceClaims: [{}]}\n"),
              ElementsAre(HasSubstr("is a claim without a name")));
}

TEST(ReadPods, ANameThatIsThereTwiceIsRefused) {
  EXPECT_THAT(problems_of("kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: m}]}\n---\n"
                          "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: m}]}\n"),
              ElementsAre(HasSubstr("f:5:1: error: there is a pod default/a in line 1 already")));
  EXPECT_THAT(names_of("kind: Pod\nmetadata: {generateName: a-}\nspec: {containers: [{name: m}]}\n---\n"
                       "kind: Pod\nmetadata: {generateName: a-}\nspec: {containers: [{name: m}]}\n"),
              ElementsAre("default/a-0", "default/a-1"));
}

TEST(ReadPods, AShortTextDoesNotBecomeManyPods) {
  EXPECT_THAT(problems_of(workload("Deployment", "web", "replicas: 20000")),
              ElementsAre(HasSubstr("spec.replicas: must be from 0 to 10000, but is 20000")));
  std::string many;
  for (const char* name : {"a", "b"}) many += workload("Deployment", name, "replicas: 10000");
  const auto read = read_pods(many, "f");
  EXPECT_EQ(read.pods.size(), kMostPods);
  ASSERT_EQ(read.problems.size(), 1u);
  EXPECT_THAT(to_string(read.problems[0]), HasSubstr("is beyond 10000 pods"));
}

TEST(ReadPods, AnEmptyPageOfAListIsNoFault) {
  const auto page =
      read_pod_page(R"({"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]})", "the API server");
  EXPECT_TRUE(page.problems.empty());
  EXPECT_TRUE(page.pods.empty());
  const auto null_items = read_pod_page(R"({"kind":"PodList","items":null})", "the API server");
  EXPECT_TRUE(null_items.problems.empty());
}

}  // namespace
}  // namespace tranche::simulate
