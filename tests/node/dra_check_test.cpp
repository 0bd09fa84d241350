// `tranche check` on a node that serves claims: what it asks of the agent, of kubelet's folder and of the API server.
#include "node/dra_bed.h"

namespace tranche::e2e {
namespace {

using ::testing::HasSubstr;

class NodeDraCheck : public NodeDra {
 protected:
  Json findings() {
    Program& check = start({tranche(), "check", "--config-file", config_path_, "--node", "--kubelet-root",
                            scratch_.path(), "--run-dir", in("run"), "--json"},
                           {{"KUBECONFIG", in("kubeconfig")}});
    finish(check);
    Json all = Json::parse(check.out(), nullptr, false);
    EXPECT_TRUE(all.is_object()) << check.out() << check.err();
    return all;
  }
  // The verdicts of the findings with that name.
  static std::set<std::string> verdicts(const Json& findings, const std::string& id) {
    std::set<std::string> all;
    for (const auto& each : findings["checks"])
      if (each["id"] == id) all.insert(each["verdict"]);
    return all;
  }
};

// Promise: dra: `tranche check` looks at the driver's registration, the server's classes and prepared claims.
TEST_F(NodeDraCheck, LooksAtTheAgentAtKubeletsFolderAndAtTheServer) {
  using Verdicts = std::set<std::string>;
  for (const char* collection : {"/apis/resource.k8s.io", "/apis/resource.k8s.io/v1/deviceclasses"})
    api_->serve_collection(collection);
  put_node_object();
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  until_node([](const Json& status) { return dra_of(status, "slices").value("state", "") == "published"; });
  const Json without = findings();
  EXPECT_EQ(verdicts(without, "dra.serving"), Verdicts{"PASS"}) << without.dump(1);
  EXPECT_EQ(verdicts(without, "dra.kubelet"), Verdicts{"PASS"}) << without.dump(1);
  EXPECT_EQ(verdicts(without, "dra.server"), Verdicts{"FAIL"}) << "there is no such API: " << without.dump(1);

  api_->put("/apis/resource.k8s.io", "v1", "{}");
  api_->put("/apis/resource.k8s.io/v1/deviceclasses", kDriver,
            R"({"spec":{"selectors":[{"cel":{"expression":"device.driver == 'gpu.tranche.io'"}}]}})");
  const Json with = findings();
  EXPECT_EQ(verdicts(with, "dra.server"), Verdicts{"PASS"}) << with.dump(1);
  EXPECT_EQ(verdicts(with, "dra.classes"), Verdicts{"PASS"}) << with.dump(1);
}

}  // namespace
}  // namespace tranche::e2e
