// `tranche labels`, and the node agent's label output: the real program on a simulated node.
#include <csignal>

#include "node/label_bed.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kNode = "/api/v1/nodes/n1";

using TrancheLabels = LabelBed;

TEST_F(TrancheLabels, ArePrintedOnceAndTheHelpTeaches) {
  write("node/node.yaml", "gpus: [{profile: T4}, {profile: H200}, {profile: H200}]\ntopology: vm\n");
  Program& plain = labels({"--sleep-interval", kLong});
  ASSERT_EQ(finish(plain), 0) << plain.err();
  EXPECT_EQ(value(plain.out(), "nvidia.com/gpu.product"), "NVIDIA-H200");
  Program& json = labels({"--json"});
  ASSERT_EQ(finish(json), 0);
  const Json document = Json::parse(json.out(), nullptr, false);
  EXPECT_EQ(document["labels"]["nvidia.com/gpu.count"], "2");
  ASSERT_EQ(document["notes"].size(), 1u);
  EXPECT_THAT(document["notes"][0], HasSubstr("about 2 x NVIDIA H200; of 1 x Tesla T4"));
  Program& help = labels({"--help"});
  EXPECT_EQ(finish(help), 0);
  EXPECT_THAT(help.out(), AllOf(HasSubstr("tranche labels --label-output node"), HasSubstr("Exit status")));
  EXPECT_TRUE(api_->requests().empty());
}

TEST_F(TrancheLabels, ExitStatusesAreOurs) {
  make_node(1);
  write("bad.yaml", "flags:\n  migStrategy: wrong\n");
  EXPECT_EQ(finish(labels({"--config", in("bad.yaml")})), 2);
  EXPECT_EQ(finish(labels({"--label-output", "paper"})), 2);
  sim_node({"driver", "absent"});
  EXPECT_EQ(finish(labels({})), 1);
}

// Promise: labels: `--remove` removes our labels and nothing else.
TEST_F(TrancheLabels, RemoveTakesAwayOursAndNothingElse) {
  make_node(1);
  const Json before = object(kNodes, "n1");
  for (const char* output : {"node", "nodefeature", "file"}) {
    ASSERT_EQ(finish(labels({"--label-output", output, "--oneshot"})), 0) << output;
    if (std::string(output) == "node") {
      EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"]["nvidia.com/gpu.count"], "1");
    }
    ASSERT_EQ(finish(labels({"--label-output", output, "--remove"})), 0) << output;
  }
  const Json after = object(kNodes, "n1");
  EXPECT_EQ(after["metadata"]["labels"], before["metadata"]["labels"]);
  EXPECT_EQ(after["metadata"].value("annotations", Json::object()), Json::object());
  EXPECT_EQ(object(kFeatures, kObject)["spec"]["labels"], Json::object());
  EXPECT_EQ(file(), "(none)");
}

class NodeLabelOutput : public LabelBed {
 protected:
  void start_agent() {
    start_tranche("node", {"--kubeconfig", in("kubeconfig"), "--label-output", "node"}, {{"NODE_NAME", "n1"}});
  }
  // Labels and the annotation that says which are ours; the condition has a time in it.
  Json written() const {
    Json metadata = object(kNodes, "n1")["metadata"];
    metadata.erase("resourceVersion");
    return metadata;
  }
  Json until_state(const std::string& state) {
    return until_node([&](const Json& status) { return status["labelOutput"]["state"] == state; });
  }
};

TEST_F(NodeLabelOutput, AreWrittenWhenTheConfigurationChangesAndNobodyIsAskedAtRest) {
  make_node(2);
  write("config.yaml", sharing("timeSlicing", 2));
  start_kubelet();
  start_agent();
  auto status = until_state("written");
  EXPECT_EQ(status["labelOutput"]["output"], "node");
  EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"]["nvidia.com/gpu.replicas"], "2");
  EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"]["kubernetes.io/os"], "linux");
  EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"], [&] {
    Json shown = status["labels"];
    shown["kubernetes.io/os"] = "linux";
    return shown;
  }());
  EXPECT_EQ(requests("GET", kNode) + requests("PATCH", kNode), 2u);
  write("config.yaml", sharing("timeSlicing", 2) + "# a comment is no change\n");
  write("config.yaml", sharing("timeSlicing", 6));
  until_node([](const Json& s) { return s["labelOutput"]["writes"] == 2; });
  EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"]["nvidia.com/gpu.replicas"], "6");
  EXPECT_EQ(requests("GET", kNode) + requests("PATCH", kNode), 4u);
}

// Promise: labels: A label of ours that is deleted or overwritten comes back.
TEST_F(NodeLabelOutput, ThatSomebodyTakesOffTheNodeOrWritesOverComeBackByThemselves) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 2));
  start_kubelet();
  start_agent();
  until_state("written");
  const Json before = object(kNodes, "n1")["metadata"]["labels"];
  api_->put(kNodes, "n1", R"({"metadata":{"labels":{"nvidia.com/gpu.count":null}}})");
  until_node([](const Json& s) { return s["labelOutput"]["writes"] == 2; });
  EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"], before);
  api_->put(kNodes, "n1", R"({"metadata":{"labels":{"nvidia.com/gpu.replicas":"7","somebody.else/label":"x"}}})");
  until_node([](const Json& s) { return s["labelOutput"]["writes"] == 3; });
  EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"]["nvidia.com/gpu.replicas"], "2");
  EXPECT_EQ(object(kNodes, "n1")["metadata"]["labels"]["somebody.else/label"], "x") << "nobody else's is touched";
}

// Promise: labels: Labels stay while the agent is away.
TEST_F(NodeLabelOutput, StayWhileTheAgentIsAway) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 2));
  start_kubelet();
  start_agent();
  until_state("written");
  const Json before = written();
  for (int i = 0; i < 2; ++i) {
    stop(*program("node"), SIGTERM, 0);
    EXPECT_EQ(written(), before);
    start_agent();
    EXPECT_EQ(until_state("written")["labelOutput"]["writes"], 0);
  }
  sim_node({"driver", "absent"});
  EXPECT_EQ(written(), before);
}

TEST_F(NodeLabelOutput, ByDefaultThereIsNone) {
  make_node(1);
  write("config.yaml", sharing("timeSlicing", 2));
  start_kubelet();
  start_tranche("node", {"--kubeconfig", in("kubeconfig")}, {{"NODE_NAME", "n1"}});
  const auto status = until_node([](const Json& s) { return s["labels"].contains("nvidia.com/gpu.count"); });
  EXPECT_EQ(status["labelOutput"]["output"], "none");
  EXPECT_EQ(requests("PATCH", kNodes), 0u);
}

}  // namespace
}  // namespace tranche::e2e
