// One object of the API server, through everything that the server does to a watch.
#include <nlohmann/json.hpp>

#include "kube/client/kube_client.h"
#include "kube/client/list_watch.h"
#include "kube/kube_bed.h"
#include "kube/object.h"
#include "os/worker/worker.h"

namespace tranche::kube {
namespace watch_object_test {

using ::testing::HasSubstr;

constexpr const char* kNodes = "/api/v1/nodes";

class OneObject : public KubeBed {
 protected:
  void follow(const std::string& name = "n1") {
    if (!client_) open();
    watch_ = std::make_unique<WatchObject>(
        *loop_, *client_, WatchedObject{kNodes, name, "deploy/rbac/config.yaml", 1},
        [this](const nlohmann::json* object) {
          ++calls_;
          value_ = object == nullptr ? "not there" : labels_of(*object)["x"];
        },
        [] {});
  }
  void label(const std::string& name, const std::string& value) {
    server_->put(kNodes, name, R"({"metadata":{"labels":{"x":")" + value + R"("}}})");
  }
  bool becomes(const std::string& value) {
    return until([&] { return value_ == value && server_->watches() == 1; });
  }

  std::unique_ptr<WatchObject> watch_;
  std::string value_ = "not reported";
  std::size_t calls_ = 0;
};

// Promise: api-server/watch: One object is asked for once by name and its changes follow.
TEST_F(OneObject, IsAskedForByItsNameOnceAndItsChangesComeByThemselves) {
  label("n1", "a");
  label("n2", "other");
  follow();
  EXPECT_TRUE(watch_->unknown_because());
  ASSERT_TRUE(becomes("a"));
  EXPECT_FALSE(watch_->unknown_because());
  label("n2", "b");
  label("n1", "c");
  ASSERT_TRUE(becomes("c"));
  EXPECT_EQ(calls_, 2u) << "nothing of the other node";
  EXPECT_EQ(server_->requests().size(), 2u) << "one list, one watch";
  for (const auto& request : server_->requests())
    EXPECT_THAT(request.query, HasSubstr("fieldSelector=metadata.name%3Dn1"));
}

// Promise: api-server/watch: The deletion of an object is reported, also after a cut.
TEST_F(OneObject, ThatIsNotThereIsReportedAndAlsoWhenItComesAndGoes) {
  follow();
  ASSERT_TRUE(becomes("not there"));
  label("n1", "a");
  ASSERT_TRUE(becomes("a"));
  server_->remove(kNodes, "n1");
  ASSERT_TRUE(becomes("not there"));
}

// Promise: api-server/watch: The deletion of an object is reported, also after a cut.
TEST_F(OneObject, WhatWasMissedIsReportedAfterAForgottenVersionAndACut) {
  label("n1", "a");
  follow();
  ASSERT_TRUE(becomes("a"));
  server_->mute(true);
  server_->cut_watches();
  ASSERT_TRUE(until([&] { return watch_requests() == 2; }));
  server_->remove(kNodes, "n1");
  server_->forget_versions();
  server_->mute(false);
  ASSERT_TRUE(becomes("not there"));
  EXPECT_FALSE(watch_->unknown_because());
}

TEST_F(OneObject, ARefusalNamesTheRoleThatIsMissing) {
  server_->refuse(1, 403, R"({"kind":"Status","code":403,"reason":"Forbidden","message":"no"})", {});
  follow();
  ASSERT_TRUE(until([&] { return watch_->unknown_because().value_or("").find("config.yaml") != std::string::npos; }));
  EXPECT_EQ(calls_, 0u);
}

class LinkToTheCluster : public KubeBed {
 protected:
  std::unique_ptr<os::Worker> worker_ = os::Worker::start();
};

// Promise: api-server/watch: All parts of the agent share one connection.
TEST_F(LinkToTheCluster, IsOpenedOnceForAllWhoWaitForIt) {
  write("kubeconfig", server_->kubeconfig(""));
  KubeLink link(*loop_, *worker_, scratch_ / "kubeconfig", {});
  int settled = 0;
  link.when_settled([&] { ++settled; });
  EXPECT_FALSE(link.settled());
  ASSERT_TRUE(until([&] { return settled == 1; }));
  ASSERT_NE(link.client(), nullptr);
  EXPECT_EQ(link.server(), "http://127.0.0.1:" + std::to_string(server_->port()));
  link.when_settled([&] { ++settled; });
  EXPECT_EQ(settled, 1) << "a turn of its own";
  ASSERT_TRUE(until([&] { return settled == 2; }));
}

TEST_F(LinkToTheCluster, OutsideOfPodsIsClosedWithTheReason) {
  KubeLink link(*loop_, *worker_, "", {});
  ASSERT_TRUE(until([&] { return link.settled(); }));
  EXPECT_EQ(link.client(), nullptr);
  EXPECT_THAT(link.closed_because(), HasSubstr("--kubeconfig"));
}

TEST_F(LinkToTheCluster, MayGoBeforeItIsSettled) {
  write("kubeconfig", server_->kubeconfig(""));
  bool settled = false;
  {
    KubeLink link(*loop_, *worker_, scratch_ / "kubeconfig", {});
    link.when_settled([&] { settled = true; });
  }
  KubeLink later(*loop_, *worker_, scratch_ / "kubeconfig", {});
  ASSERT_TRUE(until([&] { return later.settled(); }));
  EXPECT_FALSE(settled);
}

}  // namespace watch_object_test
}  // namespace tranche::kube
