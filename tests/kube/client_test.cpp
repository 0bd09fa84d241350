#include <chrono>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "kube/kube_bed.h"

namespace tranche::kube {
namespace client_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using KubeClientContract = KubeBed;

constexpr const char* kEvents = "/api/v1/namespaces/default/events";

TEST_F(KubeClientContract, AsksWithItsTokenAndItsNameAndCountsTheAnswer) {
  open();
  server_->take_token("first");
  KubeAnswer got;
  client_->list("/api/v1/pods?limit=5", [&](KubeAnswer answer) { got = std::move(answer); });
  ASSERT_TRUE(until([&] { return got.status != 0; }));
  EXPECT_EQ(got.status, 200);
  EXPECT_THAT(got.body, HasSubstr("PodList"));
  EXPECT_EQ(got.why, "");
  const auto request = server_->requests().at(0);
  EXPECT_EQ(request.token, "first");
  EXPECT_EQ(request.agent, std::string("tranche/") + kVersion);
  EXPECT_EQ(client_->counts(), (KubeCounts{{{"list", "200"}, 1}}));
}

TEST_F(KubeClientContract, AnAnswerOfMoreThan16MiBBreaksOff) {
  open();
  const std::string note(100'000, 'x');
  for (int i = 0; i < 200; ++i)
    server_->put_pod("default", "p" + std::to_string(i), R"({"metadata":{"annotations":{"note":")" + note + R"("}}})");
  KubeAnswer got{.status = -1, .body = {}, .why = {}};
  client_->list("/api/v1/pods?limit=500", [&](KubeAnswer answer) { got = std::move(answer); });
  ASSERT_TRUE(until([&] { return got.status != -1; }));
  EXPECT_EQ(got.status, 0);
  EXPECT_EQ(got.why, "the API server answered with more than 16777216 bytes");
  client_->list("/api/v1/pods?limit=50", [&](KubeAnswer answer) { got = std::move(answer); });
  ASSERT_TRUE(until([&] { return got.status == 200; })) << "the next one is asked as usual";
}

TEST_F(KubeClientContract, WritesEventsAndPatchesThem) {
  open();
  std::vector<int> statuses;
  const auto note = [&](const KubeAnswer& answer) { statuses.push_back(answer.status); };
  client_->create(kEvents, R"({"metadata":{"name":"e"},"count":1})", note);
  ASSERT_TRUE(until([&] { return statuses.size() == 1; }));
  client_->patch(std::string(kEvents) + "/e", R"({"count":2})", note);
  client_->patch(std::string(kEvents) + "/none", R"({"count":2})", note);
  ASSERT_TRUE(until([&] { return statuses.size() == 3; }));
  EXPECT_EQ(statuses[0], 201);
  EXPECT_EQ(statuses[1] + statuses[2], 200 + 404);
  EXPECT_EQ(nlohmann::json::parse(server_->events().at(0))["count"], 2);
}

// Promise: api-server/watch: A refused token is read again.
TEST_F(KubeClientContract, ATokenThatIsReplacedIsUsedForTheNextRequestOnTheSameConnection) {
  open();
  int status = 0;
  const auto ask = [&] {
    status = 0;
    client_->get("/api/v1/pods", [&](const KubeAnswer& answer) { status = answer.status; });
    ASSERT_TRUE(until([&] { return status != 0; }));
  };
  ask();
  server_->take_token("second");
  ask();
  EXPECT_EQ(status, 401);
  write("token", "second");
  ask();
  EXPECT_EQ(status, 200);
  EXPECT_EQ(server_->requests().back().token, "second");
}

TEST_F(KubeClientContract, AMissingTokenIsReportedWithItsFileAndNothingIsAsked) {
  open();
  std::remove((scratch_ / "token").c_str());
  KubeAnswer got{1, {}, {}};
  client_->get("/api/v1/pods", [&](KubeAnswer answer) { got = std::move(answer); });
  ASSERT_TRUE(until([&] { return got.status == 0; }));
  EXPECT_THAT(got.why, HasSubstr(scratch_ / "token"));
  EXPECT_THAT(server_->requests(), IsEmpty());
}

TEST_F(KubeClientContract, AnAbsentServerIsReportedAndNoSecretIsInTheMessage) {
  open();
  server_.reset();
  KubeAnswer got{1, {}, {}};
  client_->get("/api/v1/pods", [&](KubeAnswer answer) { got = std::move(answer); });
  ASSERT_TRUE(until([&] { return got.status == 0; }));
  EXPECT_NE(got.why, "");
  EXPECT_THAT(got.why, Not(HasSubstr("first")));
  EXPECT_EQ(client_->counts(), (KubeCounts{{{"get", "error"}, 1}}));
}

TEST_F(KubeClientContract, ARequestThatIsCancelledIsNeverAnsweredAlsoFromWithinAnotherAnswer) {
  open();
  server_->slow(20ms);
  int answers = 0;
  KubeClient::Id first, second;
  // Whichever is answered cancels the other.
  first = client_->get("/a", [&](const KubeAnswer&) {
    ++answers;
    client_->cancel(second);
  });
  second = client_->get("/b", [&](const KubeAnswer&) {
    ++answers;
    client_->cancel(first);
  });
  const auto third = client_->get("/c", [&](const KubeAnswer&) { answers += 100; });
  client_->cancel(third);
  ASSERT_TRUE(until([&] { return answers > 0; }));
  bool later = false;
  client_->get("/d", [&](const KubeAnswer&) { later = true; });
  ASSERT_TRUE(until([&] { return later; }));
  EXPECT_EQ(answers, 1);
}

TEST_F(KubeClientContract, ManyRequestsAtOnceAreAllAnswered) {
  open();
  int answers = 0;
  for (int i = 0; i < 200; ++i) {
    client_->get("/api/v1/pods?i=" + std::to_string(i), [&](const KubeAnswer& answer) {
      EXPECT_EQ(answer.status, 200) << answer.why;
      ++answers;
    });
  }
  ASSERT_TRUE(until([&] { return answers == 200; }));
}

// Promise: api-server/watch: The agent stops at once with an open watch.
TEST_F(KubeClientContract, IsGoneAtOnceWhileRequestsAndWatchesAreOpen) {
  open();
  client_->watch(
      "/api/v1/pods?watch=1&resourceVersion=100&timeoutSeconds=300", 300s, [](std::string_view) {},
      [](const KubeAnswer&) { FAIL() << "nobody is called any more"; });
  ASSERT_TRUE(until([&] { return server_->watches() == 1; }));
  server_->mute(true);
  client_->get("/x", [](const KubeAnswer&) { FAIL() << "nobody is called any more"; });
  ASSERT_TRUE(until([&] { return server_->requests().size() == 2; }));
  client_.reset();
  server_->mute(false);
  server_->bookmark();
  EXPECT_TRUE(until([&] { return server_->watches() == 0; }));
}

}  // namespace client_test
}  // namespace tranche::kube
