// The real agent publishes its GPUs as ResourceSlices, follows health and configuration, and takes them back.
#include "node/bed.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace {

constexpr const char* kNodeObjects = "/api/v1/nodes";
constexpr const char* kSliceObjects = "/apis/resource.k8s.io/v1/resourceslices";

class SlicesOfANode : public NodeBed {
 protected:
  SlicesOfANode() : api_(sim::ApiServer::start()) {
    api_->put(kNodeObjects, "n1", R"({"metadata":{"uid":"node-uid"},"status":{"conditions":[]}})");
    api_->serve_collection(kSliceObjects);
    write("kubeconfig", api_->kubeconfig(""));
    write("config.yaml", "version: v1\ndra: {devices: all}\n");
  }
  void begin() {
    make_node(2);
    start_kubelet();
    start_node({"--kubeconfig", in("kubeconfig"), "--node-name", "n1"});
  }
  Json slice(const char* name) const { return Json::parse(api_->object(kSliceObjects, name), nullptr, false); }
  // "xid", "" = no taint; "none" when it is not published.
  std::string taint_of(const std::string& device) const {
    const Json first = slice("00000-gpu.tranche.io-n1");
    if (!first.is_object()) return "none";
    for (const Json& one : first["spec"]["devices"])
      if (one["name"] == device) return one.contains("taints") ? one["taints"][0]["value"] : "";
    return "none";
  }
  Json condition() const {
    const Json node = Json::parse(api_->object(kNodeObjects, "n1"), nullptr, false);
    for (const auto& one : node["status"]["conditions"])
      if (one["type"] == "TrancheDraReady") return one;
    return Json::object();
  }

  std::unique_ptr<sim::ApiServer> api_;
};

// Promise: dra/slices: The agent publishes, taints and deletes slices as health and configuration ask.
TEST_F(SlicesOfANode, FollowHealthAndConfiguration) {
  begin();
  until_node([](const Json& s) {
    return s.value("dra", Json::object()).value("slices", Json::object()).value("state", "") == "published";
  });
  EXPECT_EQ(slice("00000-gpu.tranche.io-n1")["metadata"]["ownerReferences"][0]["uid"], "node-uid");
  EXPECT_EQ(slice("00001-gpu.tranche.io-n1")["spec"]["sharedCounters"].size(), 2u);
  until_node([&](const Json&) { return condition().value("reason", "") == "Published"; });
  sim_node({"gpu", "1", "lost"});
  until_node([&](const Json&) { return taint_of("gpu-1") == "lost"; });
  EXPECT_EQ(taint_of("gpu-0"), "");
  sim_node({"gpu", "1", "back"});
  until_node([&](const Json&) { return taint_of("gpu-1").empty(); });
  write("config.yaml", "version: v1\n");
  until_node([&](const Json& s) { return taint_of("gpu-0") == "none" && !s.contains("dra"); });
  EXPECT_FALSE(slice("00001-gpu.tranche.io-n1").is_object());
  until_node([&](const Json&) { return condition().value("reason", "") == "Off"; });
}

// Promise: dra/slices: Without DRA devices the API server is asked for nothing.
TEST_F(SlicesOfANode, AreNotAskedForWithoutTheKey) {
  write("config.yaml", "version: v1\n");
  begin();
  ASSERT_TRUE(until_healthy(2));
  until_node([](const Json& s) { return s["kubernetes"]["state"] == "watching"; });
  for (const auto& request : api_->requests()) EXPECT_EQ(request.path.find("resource.k8s.io"), std::string::npos);
  EXPECT_FALSE(condition().contains("reason"));
}

}  // namespace
}  // namespace tranche::e2e
