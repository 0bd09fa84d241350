// What a node asks the API server for while nothing happens: with everything on that talks to it (pods, label,
// ConfigMap, labels on the Node, condition, events), nothing but its watches.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "node/bed.h"
#include "standins/kube/api_server.h"

namespace tranche::e2e {
namespace {

constexpr const char* kNodes = "/api/v1/nodes";
constexpr const char* kMaps = "/api/v1/namespaces/gpu/configmaps";

class NodeAtRest : public NodeBed {
 protected:
  NodeAtRest() : api_(sim::ApiServer::start()) {
    config_path_ = "";
    api_->put(kNodes, "n1", R"({"metadata":{"labels":{"nvidia.com/device-plugin.config":"four"}}})");
    api_->put(kMaps, "configs", Json{{"data", {{"four", sharing("mps", 4)}}}}.dump());
    write("kubeconfig", api_->kubeconfig(""));
  }
  // Lists, gets and writes are asked once each time; of watches it is those that were opened.
  std::map<std::string, std::size_t> asked() const {
    std::map<std::string, std::size_t> counts;
    for (const auto& request : api_->requests())
      ++counts[(request.is_watch() ? "WATCH" : request.method) + " " + request.path];
    return counts;
  }
  void rest_for(Duration time) {
    loop().after(time, [this] { loop().stop(); });
    loop().run();
  }
  void say(const char* when, const std::map<std::string, std::size_t>& counts) const {
    for (const auto& [what, count] : counts) std::printf("%s: %zu × %s\n", when, count, what.c_str());
  }

  std::unique_ptr<sim::ApiServer> api_;
};

// $TRANCHE_REST_SECONDS: for how long it is looked at (docs/internals/benchmarks.md).
// Promise: api-server/watch: A node at rest makes no request beside its open watches.
TEST_F(NodeAtRest, NothingIsAskedBesideTheWatchesThatAreOpen) {
  const char* given = std::getenv("TRANCHE_REST_SECONDS");
  make_node(2);
  start_kubelet();
  start_mps({"--config-of-node", in("run/config-in-force.json")});
  start_tranche("node", {"--config-map", "gpu/configs", "--label-output", "node", "--kubeconfig", in("kubeconfig"),
                         "--node-name", "n1"});
  ASSERT_TRUE(until_healthy(8));
  until_node([](const Json& s) {
    const Json& kubernetes = s["kubernetes"];
    return kubernetes["state"] == "watching" && s["labelOutput"]["state"] == "written" &&
           kubernetes["condition"]["written"] == "Serving" &&
           kubernetes["events"]["written"] == kubernetes["events"]["told"];
  });
  EXPECT_TRUE(until([&] { return api_->watches() == 3; }, "the watches of pods, the Node and the ConfigMap"))
      << "the labels need none of their own";
  const auto at_start = asked();
  rest_for(std::chrono::seconds(given == nullptr ? 5 : std::max(std::atoi(given), 1)));
  auto later = asked();
  if (given != nullptr) {
    say("start", at_start);
    say("start and rest", later);
    std::erase_if(later, [](const auto& entry) { return entry.first.starts_with("WATCH"); });
    for (const auto& [what, count] : at_start) {
      if (what.starts_with("WATCH")) continue;
      EXPECT_EQ(later[what], count) << what;
    }
    return;
  }
  EXPECT_EQ(later, at_start) << "a watch lasts for five to ten minutes";
}

}  // namespace
}  // namespace tranche::e2e
