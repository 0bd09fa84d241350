// ResourceSlices of a node, by the stand-in of the API server.
#include "node/dra/slice_publisher.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "gpu/models/models.h"
#include "kube/kube_bed.h"

namespace tranche::kube {
namespace slice_publisher_test {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kFirst = "00000-gpu.tranche.io-n1";
constexpr const char* kSecond = "00001-gpu.tranche.io-n1";

class Slices : public KubeBed {
 protected:
  Slices() {
    server_->serve_collection(dra::kSlicesPath);
    server_->put("/api/v1/nodes", "n1", R"({"metadata":{"uid":"node-uid"}})");
    begin();
  }
  void begin() {
    publisher_.reset();
    open();
    write("kubeconfig", server_->kubeconfig(scratch_ / "token"));
    link_ = std::make_unique<KubeLink>(*loop_, *worker_, scratch_ / "kubeconfig", config::Environment{});
    publisher_ = std::make_unique<node::SlicePublisher>(*loop_, *link_, "n1", [this] { ++calls_; });
  }
  static node::SliceWish wish(const char* model, bool faulty = false, const std::string& driver = "gpu.tranche.io") {
    config::Config config;
    config.dra.devices = config::DraDevices::kAll;
    const auto inventory = *gpu::inventory_of_model(model);
    std::map<std::string, gpu::Unhealthy> faults;
    if (faulty) faults[inventory.gpus[0].uuid] = {};
    return {driver, dra::devices_of(config, inventory, faults)};
  }
  bool becomes(const std::string& state) {
    return until([&] { return publisher_->report().state == state; });
  }
  // Asked later than all that the publisher asks for now.
  void ask_another() {
    bool answered = false;
    client_->get("/api/v1/nodes", [&](const KubeAnswer&) { answered = true; });
    ASSERT_TRUE(until([&] { return answered; }));
  }
  Json slice(const std::string& name) const { return json_of(server_->object(dra::kSlicesPath, name)); }
  std::size_t writes() const {
    return count([](const sim::ApiRequest& r) {
      return r.method != "GET" && r.path.starts_with(dra::kSlicesPath) && r.query.find("dryRun") == std::string::npos;
    });
  }

  std::unique_ptr<os::Worker> worker_ = os::Worker::start();
  std::unique_ptr<KubeLink> link_;
  std::unique_ptr<node::SlicePublisher> publisher_;
  int calls_ = 0;
};

// Promise: dra/slices: Without DRA devices the API server is asked for nothing.
TEST_F(Slices, NothingIsAskedWhileNothingIsWanted) {
  publisher_->want({});
  ask_another();
  EXPECT_EQ(server_->requests().size(), 1u);
  EXPECT_EQ(publisher_->report().state, "off");
}

// Promise: dra/slices: Slices are created with the Node as their owner, and at rest nothing is asked.
TEST_F(Slices, AreCreatedOnceAndOwnedByTheNode) {
  publisher_->want(wish("2xH200"));
  ASSERT_TRUE(becomes("published"));
  EXPECT_EQ(writes(), 2u);
  EXPECT_EQ(slice(kFirst)["metadata"]["ownerReferences"][0]["uid"], "node-uid");
  EXPECT_EQ(slice(kFirst)["spec"]["devices"].size(), 6u);
  EXPECT_EQ(slice(kSecond)["spec"]["sharedCounters"].size(), 2u);
  const auto report = publisher_->report();
  EXPECT_EQ(report.slices, 2u);
  EXPECT_EQ(report.devices, 6u);
  ASSERT_TRUE(until([&] { return server_->watches() == 1; }));
  const auto asked = server_->requests().size();
  const int calls = calls_;
  publisher_->want(wish("2xH200"));
  ask_another();
  EXPECT_EQ(server_->requests().size(), asked + 1);
  EXPECT_EQ(calls_, calls);
}

TEST_F(Slices, OfAFaultyGpuAreTaintedInOneWriteAndAreNotAfterwards) {
  publisher_->want(wish("2xH200"));
  ASSERT_TRUE(becomes("published"));
  publisher_->want(wish("2xH200", true));
  ASSERT_TRUE(until([&] { return slice(kFirst)["spec"]["devices"][0].contains("taints"); }));
  ASSERT_TRUE(becomes("published"));
  EXPECT_EQ(writes(), 3u);
  EXPECT_EQ(slice(kFirst)["spec"]["pool"]["generation"], 1);
  publisher_->want(wish("2xH200"));
  ASSERT_TRUE(until([&] { return !slice(kFirst)["spec"]["devices"][0].contains("taints"); }));
}

// Promise: dra/slices: Slices that another program deletes are published again.
TEST_F(Slices, ComeBackWhenTheyAreDeletedAlsoWithANewNode) {
  publisher_->want(wish("1xH200"));
  ASSERT_TRUE(becomes("published"));
  ASSERT_TRUE(until([&] { return server_->watches() == 1; }));
  server_->remove("/api/v1/nodes", "n1");
  server_->put("/api/v1/nodes", "n1", R"({"metadata":{"uid":"another"}})");
  server_->remove(dra::kSlicesPath, kFirst);
  server_->remove(dra::kSlicesPath, kSecond);
  ASSERT_TRUE(until([&] {
    return slice(kSecond).is_object() && slice(kFirst)["metadata"]["ownerReferences"][0]["uid"] == "another";
  }));
}

TEST_F(Slices, OfOthersAreLeftAlone) {
  server_->put(dra::kSlicesPath, "other-node", R"({"spec":{"driver":"gpu.tranche.io","nodeName":"n2"}})");
  server_->put(dra::kSlicesPath, "other-driver", R"({"spec":{"driver":"gpu.nvidia.com","nodeName":"n1"}})");
  server_->put(dra::kSlicesPath, "ours-of-before", R"({"spec":{"driver":"gpu.tranche.io","nodeName":"n1"}})");
  publisher_->want(wish("1xH200"));
  ASSERT_TRUE(becomes("published"));
  EXPECT_TRUE(slice("other-node").is_object());
  EXPECT_TRUE(slice("other-driver").is_object());
  EXPECT_FALSE(slice("ours-of-before").is_object());
}

// Promise: dra/slices: With dra.devices none, or another driver name, the slices of before are deleted.
TEST_F(Slices, GoWhenTheyAreWantedNoMoreOrUnderAnotherName) {
  publisher_->want(wish("1xH200"));
  ASSERT_TRUE(becomes("published"));
  publisher_->want(wish("1xH200", false, "gpu.nvidia.com"));
  ASSERT_TRUE(until([&] { return slice("00001-gpu.nvidia.com-n1").is_object() && !slice(kSecond).is_object(); }));
  ASSERT_TRUE(becomes("published"));
  EXPECT_FALSE(slice(kFirst).is_object());
  publisher_->want({});
  ASSERT_TRUE(becomes("off"));
  EXPECT_FALSE(slice("00000-gpu.nvidia.com-n1").is_object());
  EXPECT_FALSE(slice("00001-gpu.nvidia.com-n1").is_object());
}

// Promise: dra/slices: A shared device is not published where the API server would make an exclusive one of it.
TEST_F(Slices, OfAnOlderServerHaveNoSharedDevices) {
  server_->drop_members({"allowMultipleAllocations", "requestPolicy"});
  publisher_->want(wish("1xH200"));
  ASSERT_TRUE(becomes("published"));
  ASSERT_EQ(slice(kFirst)["spec"]["devices"].size(), 1u);
  EXPECT_EQ(slice(kFirst)["spec"]["devices"][0]["name"], "gpu-0");
  EXPECT_THAT(publisher_->report().withheld, ElementsAre(HasSubstr("DRAConsumableCapacity")));
}

TEST_F(Slices, AreTakenBackWhenTheServerKeepsLessThanBefore) {
  publisher_->want(wish("1xH200"));
  ASSERT_TRUE(becomes("published"));
  server_->drop_members({"consumesCounters"});
  publisher_->want(wish("1xH200", true));
  ASSERT_TRUE(
      until([&] { return !publisher_->report().withheld.empty() && publisher_->report().state == "published"; }));
  EXPECT_EQ(slice(kFirst)["spec"]["devices"].size(), 2u) << "gpu-0 and its monitor device";
}

TEST_F(Slices, ARefusalNamesTheRoleAndWhatFailsOnceIsTriedAgain) {
  server_->refuse(1, 500, R"({"kind":"Status","code":500,"message":"not now"})",
                  [](const auto& request) { return request.method == "POST"; });
  publisher_->want(wish("1xH200"));
  ASSERT_TRUE(becomes("published"));
  server_->refuse(1, 403, R"({"kind":"Status","code":403,"reason":"Forbidden","message":"no"})",
                  [](const auto& request) { return request.method == "PUT"; });
  publisher_->want(wish("1xH200", true));
  ASSERT_TRUE(becomes("failing"));
  EXPECT_THAT(publisher_->report().problem, HasSubstr("deploy/rbac/dra.yaml"));
}

TEST_F(Slices, AConflictIsSolvedByWhatTheWatchBrings) {
  publisher_->want(wish("1xH200"));
  ASSERT_TRUE(becomes("published"));
  server_->put(dra::kSlicesPath, kFirst, R"({"spec":{"devices":[]}})");
  publisher_->want(wish("1xH200", true));
  ASSERT_TRUE(until([&] {
    return slice(kFirst)["spec"]["devices"].size() == 3 && slice(kFirst)["spec"]["devices"][0].contains("taints");
  }));
}

// Promise: dra/slices: Two agents that want different slices of a node do not write without a pause.
TEST_F(Slices, AreRestoredLessAndLessOftenWhereAnotherProgramChangesThem) {
  publisher_->want(wish("1xH200"));
  ASSERT_TRUE(becomes("published"));
  ASSERT_TRUE(until([&] { return server_->watches() == 1; }));
  node::SlicePublisher other(*loop_, *link_, "n1", [] {});
  other.want(wish("1xH200", true));
  const auto begin = loop_->now();
  ASSERT_TRUE(until([&] { return writes() >= 12; }));
  EXPECT_GE(loop_->now() - begin, 500ms);
}

TEST_F(Slices, AServerWithoutTheApiIsSaid) {
  auto elsewhere = sim::ApiServer::start();
  server_.swap(elsewhere);
  begin();
  publisher_->want(wish("1xH200"));
  ASSERT_TRUE(until([&] { return !publisher_->report().problem.empty(); }));
  EXPECT_EQ(publisher_->report().state, "waiting");
}

}  // namespace slice_publisher_test
}  // namespace tranche::kube
