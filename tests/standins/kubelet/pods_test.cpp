// Pod files, scheduling and the start parameters of containers: the parts of sim-kubelet that are plain values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "standins/kubelet/container_command.h"
#include "standins/kubelet/pods.h"
#include "standins/kubelet/schedule.h"

namespace tranche::sim {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kThree = R"yaml(apiVersion: v1
kind: Pod
metadata: {name: one, namespace: team-a, labels: {app: x}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: ignored
    command: [sim-cuda]
    args: ["hold", "--node", "$(WHO)"]
    env:
    - {name: WHO, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    resources: {limits: {nvidia.com/gpu: 2, cpu: 500m}, requests: {nvidia.com/gpu: "2"}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, command: [sleep, "9"]}]
---
kind: Job
metadata: {name: train}
spec:
  completions: 1
  template:
    spec:
      restartPolicy: OnFailure
      containers: [{name: main, command: ["true"]}]
)yaml";

std::string said(const PodsFile& file) {
  std::string text;
  for (const Problem& problem : file.problems) text += to_string(problem) + "\n";
  return text;
}

TEST(Pods, AreReadFromPodsDeploymentsAndJobs) {
  const auto file = parse_pods(kThree, "pods.yaml");
  EXPECT_THAT(file.problems, IsEmpty()) << said(file);
  ASSERT_THAT(file.pods, SizeIs(4));
  const PodSpec& one = file.pods[0];
  EXPECT_EQ(one.pod_namespace, "team-a");
  EXPECT_EQ(one.restart, RestartPolicy::kNever);
  EXPECT_THAT(one.labels, ElementsAre(testing::Pair("app", "x")));
  EXPECT_THAT(one.containers[0].resources, ElementsAre(testing::Pair("nvidia.com/gpu", 2)));
  EXPECT_THAT(one.containers[0].env, ElementsAre(testing::Pair("WHO", "one")));
  EXPECT_EQ(file.pods[1].name, "web-0");
  EXPECT_EQ(file.pods[2].name, "web-1");
  EXPECT_EQ(file.pods[2].owner, "Deployment/web");
  EXPECT_EQ(file.pods[3].restart, RestartPolicy::kOnFailure);
}

TEST(Pods, NameThePlaceOfEveryMistakeAndTheRemedy) {
  const auto file = parse_pods(R"(kind: Pod
metadata: {name: one}
spec:
  containers:
  - name: Main
    args: [1]
    resources:
      limits: {nvidia.com/gpu: 0.5}
      requests: {nvidia.com/gpu: 1}
)",
                               "pods.yaml");
  EXPECT_THAT(file.pods, IsEmpty());
  EXPECT_THAT(said(file), AllOf(HasSubstr("pods.yaml:5:11: error: spec.containers[0].name"),
                                HasSubstr("pods.yaml:6:12: error: spec.containers[0].args[0]"),
                                HasSubstr("write it in quotes: \"1\""), HasSubstr("spec.containers[0].command"),
                                HasSubstr("pods.yaml:8:32: error: spec.containers[0].resources.limits.nvidia.com/gpu"),
                                HasSubstr("has no limit")));
}

TEST(Pods, WarnAboutAWordThatKubernetesDoesNotKnowAndGuessIt) {
  const auto file = parse_pods(
      "kind: Pod\nmetadata: {name: a}\nspec: {restartPolice: Never, containers: [{name: m, command: [x]}]}\n", "p");
  ASSERT_THAT(file.problems, SizeIs(1));
  EXPECT_EQ(file.problems[0].severity, Severity::kWarning);
  EXPECT_THAT(file.problems[0].remedy, HasSubstr("restartPolicy"));
  EXPECT_THAT(file.pods, SizeIs(1));
}

TEST(Pods, KeepTheGoodDocumentsOfAFileWithABadOne) {
  const auto file = parse_pods(
      "kind: Service\n---\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: m, command: [x]}]}\n", "p");
  EXPECT_THAT(file.pods, SizeIs(1));
  EXPECT_THAT(said(file), HasSubstr("\"Service\" is not a kind that runs here"));
}

TEST(Pods, SayWhereATextIsNotYaml) {
  const auto file = parse_pods("kind: Pod\n  bad: [\n", "pods.yaml");
  ASSERT_THAT(file.problems, SizeIs(1));
  EXPECT_GT(file.problems[0].place.line, 0);
  EXPECT_THAT(parse_pods("", "p").problems, IsEmpty());
  EXPECT_THAT(parse_pods("[1, 2]", "p").problems, SizeIs(1));
  EXPECT_THAT(parse_pods("&a [*a]", "p").problems, SizeIs(1));
}

TEST(Pods, AreNotUnrolledWithoutBound) {
  const std::string one =
      "kind: Job\nmetadata: {name: a}\nspec: {completions: 1000, template: {spec: {restartPolicy: Never, "
      "containers: "
      "[{name: m, command: [x]}]}}}\n";
  EXPECT_THAT(parse_pods(one, "p").pods, SizeIs(1000));
  EXPECT_THAT(parse_pods(one + "---\n" + one, "p").pods, SizeIs(1000));
  EXPECT_THAT(parse_pods(one + "---\n" + one, "p").problems, SizeIs(1));
}

TEST(Schedule, SaysWhatAPodAsksAndWhatIsFree) {
  const Amounts offered = {{"nvidia.com/gpu", 8}};
  EXPECT_EQ(why_not({{"nvidia.com/gpu", 2}}, offered, {{"nvidia.com/gpu", 6}}), "");
  EXPECT_EQ(why_not({{"nvidia.com/gpu", 4}}, offered, {{"nvidia.com/gpu", 6}}), "asks 4 nvidia.com/gpu, 2 free");
  EXPECT_EQ(why_not({{"nvidia.com/gpu", 1}}, offered, {{"nvidia.com/gpu", 9}}), "asks 1 nvidia.com/gpu, 0 free");
  EXPECT_EQ(why_not({{"a.b/c", 1}}, offered, {}), "asks 1 a.b/c, which this node does not offer");
  EXPECT_EQ(why_not({}, {}, {}), "");
}

TEST(ContainerCommand, LetThePodOverrideThePluginAndThePluginTheImage) {
  PodContainer container{.name = "m", .command = {"run"}, .args = {}, .env = {{"A", "pod"}}, .resources = {}};
  ContainerGrant grant;
  grant.envs = {{"A", "plugin"}, {"B", "plugin"}};
  const auto command = container_command(container, grant, {"A=image", "B=image", "C=image"}, ContainerMode::kProcess);
  EXPECT_THAT(command.env, testing::UnorderedElementsAre("A=pod", "B=plugin", "C=image"));
}

TEST(ContainerCommand, ExpandTheVariablesOfThePodOnly) {
  PodContainer container;
  container.command = {"run", "$(A)/$(B)", "$$(A)", "$(C)", "$(", "$"};
  container.env = {{"A", "1"}, {"B", "$(A)2"}};
  ContainerGrant grant;
  grant.envs = {{"C", "plugin"}};
  const auto command = container_command(container, grant, {}, ContainerMode::kProcess);
  EXPECT_THAT(command.argv, ElementsAre("run", "1/12", "$(A)", "$(C)", "$(", "$"));
}

TEST(ContainerCommand, ReplaceContainerPathsByHostPathsWithoutANamespace) {
  const std::vector<ContainerGrant::Mount> mounts = {{.container_path = "/mps", .host_path = "/run/t/1"},
                                                     {.container_path = "/mps/deep/", .host_path = "/run/deep"}};
  EXPECT_EQ(with_host_paths("/mps", mounts), "/run/t/1");
  EXPECT_EQ(with_host_paths("/mps/control", mounts), "/run/t/1/control");
  EXPECT_EQ(with_host_paths("/mps/deep/x:/mps", mounts), "/run/deep/x:/run/t/1");
  EXPECT_EQ(with_host_paths("--dir=/mps,/mpsx,/a/mps", mounts), "--dir=/run/t/1,/mpsx,/a/mps");
  PodContainer container;
  container.command = {"ls", "/mps"};
  ContainerGrant grant;
  grant.envs = {{"CUDA_MPS_PIPE_DIRECTORY", "/mps"}};
  grant.mounts = mounts;
  const auto rewritten = container_command(container, grant, {"KEPT=/mps"}, ContainerMode::kProcess);
  EXPECT_THAT(rewritten.argv, ElementsAre("ls", "/run/t/1"));
  EXPECT_THAT(rewritten.env, AllOf(Contains("CUDA_MPS_PIPE_DIRECTORY=/run/t/1"), Contains("KEPT=/mps")));
  const auto as_is = container_command(container, grant, {}, ContainerMode::kNamespaces);
  EXPECT_THAT(as_is.argv, ElementsAre("ls", "/mps"));
  EXPECT_THAT(as_is.env, Contains("CUDA_MPS_PIPE_DIRECTORY=/mps"));
}

}  // namespace
}  // namespace tranche::sim
