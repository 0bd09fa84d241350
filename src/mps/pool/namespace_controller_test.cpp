#include "mps/pool/namespace_controller.h"

#include <gmock/gmock.h>

namespace tranche::agent {
namespace namespace_controller_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

mps::v3::WantedNamespace wanted(const std::string& name) {
  return {name, {mib(1024), Percent::whole(10)}};
}

class NamespaceControllerTest : public ::testing::Test {
 protected:
  void open() {
    controller_ = std::make_unique<NamespaceController>(NamespaceController::Callbacks{
        .wanted = [this] { return endpoints_; },
        .daemon = [this]() -> const mps::Supervisor& { return daemon_; },
        .change =
            [this](const NamespaceController::Namespaces& all, NamespaceController::Done done) {
              changes_.push_back(all.size());
              done_ = std::move(done);
            },
        .all_changed = [this] { ++resets_; },
        .remove =
            [this](const std::string& name, NamespaceController::Done done) {
              removed_.push_back(name);
              done_ = std::move(done);
            }});
  }
  void serve(const std::vector<std::string>& listed) {
    daemon_.state = mps::State::kServing;
    daemon_.read_back = mps::LimitsReadBack{};
    daemon_.read_back->namespaces = {{"default", "pool", {}, {}, ""}};
    for (const auto& name : listed) daemon_.read_back->namespaces.push_back({name, "pool", {}, {}, ""});
  }
  void settle() {
    controller_->settle([this](const Status& status) { answers_.push_back(status ? "" : to_string(status.error())); });
  }
  void finish(const Status& status = {}) {
    const auto done = std::exchange(done_, {});
    done(status);
  }

  NamespaceController::Namespaces endpoints_;
  mps::Supervisor daemon_;
  std::vector<std::size_t> changes_;  // the expected number of namespaces
  std::vector<std::string> removed_, answers_;
  NamespaceController::Done done_;
  int resets_ = 0;
  std::unique_ptr<NamespaceController> controller_;
};

TEST_F(NamespaceControllerTest, AnEndpointIsAnsweredWhenTheDaemonHasItsNamespace) {
  open();
  serve({});
  endpoints_ = {wanted("g1")};
  settle();
  EXPECT_THAT(changes_, ElementsAre(1u));
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_THAT(controller_->all(), IsEmpty()) << "until it does";
  serve({"g1"});
  finish();
  EXPECT_THAT(answers_, ElementsAre(""));
  EXPECT_EQ(controller_->all(), endpoints_);
  settle();
  EXPECT_EQ(answers_.size(), 2u) << "at once, for there is nothing to do";
  EXPECT_EQ(changes_.size(), 1u);
}

TEST_F(NamespaceControllerTest, OneChangeAfterTheOtherAndTheLastHoldsAllOfThem) {
  open();
  serve({});
  endpoints_ = {wanted("g1")};
  settle();
  endpoints_ = {wanted("g1"), wanted("g2")};
  settle();
  endpoints_ = {wanted("g1"), wanted("g2"), wanted("g3")};
  settle();
  EXPECT_THAT(changes_, ElementsAre(1u));
  finish();
  EXPECT_EQ(answers_.size(), 1u);
  EXPECT_THAT(changes_, ElementsAre(1u, 3u));
  finish();
  EXPECT_EQ(answers_.size(), 3u);
}

TEST_F(NamespaceControllerTest, WhatTheDaemonWouldNotDoIsReportedAndForgotten) {
  open();
  serve({});
  endpoints_ = {wanted("g1")};
  settle();
  finish(fail(Kind::kUnavailable, "the daemon says no"));
  EXPECT_THAT(answers_, ElementsAre(HasSubstr("says no")));
  EXPECT_THAT(controller_->all(), IsEmpty());
}

TEST_F(NamespaceControllerTest, ADaemonThatDoesNotServeIsSetWhenItCan) {
  open();
  endpoints_ = {wanted("g1")};
  settle();
  EXPECT_THAT(answers_, ElementsAre("")) << "nobody comes in before it serves";
  EXPECT_THAT(changes_, IsEmpty());
  EXPECT_EQ(resets_, 1);
  EXPECT_EQ(controller_->all(), endpoints_);
}

TEST_F(NamespaceControllerTest, ANamespaceWithoutAnEndpointGoesAndWaitsForItsLastClient) {
  endpoints_ = {wanted("g1")};
  open();
  serve({"g1", "old", "older"});
  daemon_.servers = {{.pid = 9, .status = "ACTIVE", .clients = {101, 102}}};
  controller_->look();
  EXPECT_THAT(removed_, ElementsAre("old"));
  finish(fail(Kind::kUnavailable, "Namespace old has clients"));
  EXPECT_THAT(removed_, ElementsAre("old", "older"));
  finish();
  controller_->look();
  EXPECT_EQ(removed_.size(), 2u) << "not asked again and again";
  daemon_.servers[0].clients = {101};
  controller_->look();
  EXPECT_THAT(removed_, ElementsAre("old", "older", "old"));
}

TEST_F(NamespaceControllerTest, ARefusalThatIsOlderThanTheLastClientsExitIsTriedAgain) {
  open();
  serve({"old"});
  daemon_.servers = {{.pid = 9, .status = "ACTIVE", .clients = {101}}};
  controller_->look();
  ASSERT_THAT(removed_, ElementsAre("old"));
  daemon_.servers[0].clients = {};
  controller_->look();
  finish(fail(Kind::kUnavailable, "Namespace old has clients"));
  EXPECT_THAT(removed_, ElementsAre("old", "old"));
  finish(fail(Kind::kUnavailable, "Namespace old has clients"));
  EXPECT_EQ(removed_.size(), 2u) << "not asked again and again";
}

TEST_F(NamespaceControllerTest, AnEndpointThatIsOpenedAnewWhileItsNamespaceGoesGetsAnother) {
  open();
  serve({"g1"});
  controller_->look();
  ASSERT_THAT(removed_, ElementsAre("g1"));
  endpoints_ = {wanted("g1")};
  settle();
  EXPECT_THAT(changes_, IsEmpty()) << "not beside the removal";
  finish();
  EXPECT_THAT(changes_, ElementsAre(1u));
}

}  // namespace namespace_controller_test
}  // namespace tranche::agent
