#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "node/reports.h"

namespace tranche::node {
namespace pages_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct NodePagesTest : ::testing::Test {
  void put(const std::string& problem) {
    Snapshot snapshot;
    snapshot.driver_problem = problem;
    box.put(std::make_shared<const Snapshot>(std::move(snapshot)));
  }

  SnapshotBox box;
  guard::SharedFigures figures;
  GpuFigures gpus;
  ServedPages pages = node_pages({&box, &figures, &gpus, [] {}, true});
};

TEST_F(NodePagesTest, ANewSnapshotIsShownAtOnce) {
  put("no driver yet");
  EXPECT_THAT(pages.routes.at("/status")().body.str(), HasSubstr("no driver yet"));
  put("a driver of another version");
  EXPECT_THAT(pages.routes.at("/status")().body.str(), HasSubstr("another version"));
}

TEST_F(NodePagesTest, NoPageKeepsAFormerSnapshot) {
  put("no driver yet");
  for (const auto& [path, route] : pages.routes) (void)route();
  const std::weak_ptr<const Snapshot> former = box.get();
  put("a driver of another version");
  EXPECT_TRUE(former.expired());
}

// A page of megabytes that several read at once is in memory once.
TEST_F(NodePagesTest, ReadersOfOneTextShareIt) {
  put("no driver yet");
  const auto& page = pages.routes.at("/");
  const auto first = page().body, second = page().body;
  EXPECT_EQ(first.blocks()[0]->data(), second.blocks()[0]->data());
  pages.at_rest();
  EXPECT_THAT(first.str(), HasSubstr("no driver yet")) << "which a slow reader still reads";
}

TEST_F(NodePagesTest, TheNetworkSeesNoProcessAndNoPodUid) {
  Snapshot snapshot;
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu";
  resource.devices.emplace_back();
  resource.devices[0].uuid = resource.devices[0].gpu_uuid = "GPU-0";
  resource.devices[0].slots = 2;
  resource.devices[0].replicated = true;
  resource.devices[0].pool = "gpu-0";
  snapshot.plan.resources = {resource};
  snapshot.holdings = {{"team", "a", "main", "nvidia.com/gpu", {"GPU-0::1"}}};
  auto held = holders(snapshot, {});
  held[0].pod_uid = "the-uid";
  held[0].container_id = "containerd://c";
  snapshot.holders = held;
  const std::string grant = held[0].grant;
  snapshot.cluster.node = "n1";
  snapshot.use.emplace_back();
  snapshot.use[0].uuid = "GPU-0";
  snapshot.use[0].processes.emplace_back();
  snapshot.use[0].processes[0].pid = 4711;
  snapshot.pools.pools["gpu-0"].endpoints = {
      {.grant = grant, .clients = {4711}, .protection = {{4711, "no", "no right"}}}};
  guard::Figures used;
  used[{grant, "GPU-0"}].used = mib(64);

  std::vector<gpu::GpuTelemetry> measured(1);
  measured[0].uuid = "GPU-0";
  measured[0].activity.sm = 0.47;
  const auto of_node = json_of(status_document(snapshot, measured).str());
  ASSERT_TRUE(of_node.is_object());
  EXPECT_EQ(of_node["devices"][0]["processes"][0]["pid"], 4711);
  EXPECT_EQ(of_node["devices"][0]["slots"][1]["holder"], "team/a/main");
  EXPECT_EQ(of_node["grants"][0]["podUid"], "the-uid");
  EXPECT_FALSE(of_node["grants"][0]["devices"][0].contains("usedMiB"));
  EXPECT_EQ(of_node["grants"][0]["protection"][0]["pid"], 4711);
  const auto network = json_of(network_document(snapshot, used, measured).str());
  ASSERT_TRUE(network.is_object());
  EXPECT_EQ(network["node"], "n1");
  EXPECT_EQ(network["devices"][0]["smActive"], 47);
  EXPECT_FALSE(json_of(status_document(snapshot, {}).str())["devices"][0].contains("smActive")) << "not measured";
  EXPECT_EQ(network["devices"][0]["slots"][1]["holder"], "team/a/main");
  EXPECT_FALSE(network["devices"][0].contains("processes"));
  EXPECT_EQ(network["grants"][0]["deleting"], false);
  EXPECT_EQ(network["grants"][0]["protection"].dump(), R"([{"protected":"no","why":"no right"}])");
  EXPECT_EQ(network["grants"][0]["devices"][0]["usedMiB"], 64);
  for (const char* key : {"podUid", "containerId"}) EXPECT_FALSE(network["grants"][0].contains(key)) << key;
  for (const char* key : {"pid", "faults", "pages", "kubernetes", "labelOutput"}) {
    EXPECT_TRUE(of_node.contains(key)) << key;
    EXPECT_FALSE(network.contains(key)) << key;
  }
}

TEST_F(NodePagesTest, ATextIsMadeAgainOnceItIsForgotten) {
  put("no driver yet");
  const auto& page = pages.routes.at("/");
  EXPECT_THAT(page().body.str(), HasSubstr("no driver yet"));
  put("a driver of another version");
  pages.at_rest();
  EXPECT_THAT(page().body.str(), HasSubstr("another version"));
}

}  // namespace pages_test
}  // namespace tranche::node
