// The pods of a node as they change, through everything that an API server does to a watch.
#include <chrono>
#include <nlohmann/json.hpp>

#include "kube/client/list_watch.h"
#include "kube/kube_bed.h"
#include "kube/pod.h"

namespace tranche::kube {
namespace list_watch_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using State = Reflector::State;

constexpr const char* kHere = R"({"spec":{"nodeName":"n1"},"status":{"phase":"Running"}})";
constexpr const char* kGoing = R"({"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}})";

class PodsOfANode : public KubeBed {
 protected:
  void follow(std::uint32_t page = 500) {
    if (!client_) open();
    ReflectorSettings settings{.selector = "fieldSelector=spec.nodeName%3Dn1", .page = page};
    settings.first_wait = 10ms;
    watch_ = std::make_unique<ListWatch>(
        *loop_, *client_, "/api/v1/pods", settings,
        ListWatchHandler{.on_object = [this](const auto& object, auto change) { return on_object(object, change); },
                         .on_list =
                             [this](bool whole) {
                               auto listed = std::exchange(listed_, {});
                               if (whole) note(table_.replace(std::move(listed)));
                             },
                         .on_turn = [] {}});
  }
  bool is_watching(std::size_t pods) {
    return until([&] {
      return watch_->reflector().state() == State::kWatching && server_->watches() == 1 && table_.size() == pods;
    });
  }
  std::size_t seen(bool over) const {
    return static_cast<std::size_t>(std::ranges::count(endings_, over, &PodEnding::over));
  }
  const Reflector& reflector() const { return watch_->reflector(); }

  std::unique_ptr<ListWatch> watch_;
  PodTable table_;
  std::vector<PodEnding> endings_;

 private:
  void note(const std::vector<PodEnding>& some) { endings_.insert(endings_.end(), some.begin(), some.end()); }
  Status on_object(const nlohmann::json& object, std::optional<Change> change) {
    auto pod = read_pod(object);
    if (change)
      note(table_.apply(*change, std::move(pod)));
    else
      listed_.push_back(std::move(pod));
    return {};
  }
  std::vector<PodSeen> listed_;
};

TEST_F(PodsOfANode, AreListedOnceAndThenTheirChangesComeByThemselves) {
  server_->put_pod("default", "a", kHere);
  server_->put_pod("default", "elsewhere", R"({"spec":{"nodeName":"n2"}})");
  follow();
  ASSERT_TRUE(is_watching(1));
  server_->put_pod("team", "b", kHere);
  ASSERT_TRUE(until([&] { return table_.size() == 2; }));
  server_->put_pod("default", "a", kGoing);
  ASSERT_TRUE(until([&] { return seen(false) == 1; }));
  server_->delete_pod("default", "a");
  ASSERT_TRUE(until([&] { return seen(true) == 1; }));
  EXPECT_EQ(list_requests(), 1u);
  EXPECT_EQ(watch_requests(), 1u);
}

// Promise: api-server/watch: Ten thousand pods come in pages.
TEST_F(PodsOfANode, TenThousandComeInPages) {
  for (int i = 0; i < 10000; ++i) server_->put_pod("default", "p" + std::to_string(i), kHere);
  follow();
  ASSERT_TRUE(is_watching(10000));
  EXPECT_EQ(list_requests(), 20u);
  EXPECT_EQ(table_.size(), 10000u);
}

// Promise: api-server/watch: An expired page begins the list anew and loses or doubles no pod.
TEST_F(PodsOfANode, APageThatExpiresBeginsTheListAnewAndNoPodIsLostOrDoubled) {
  for (int i = 0; i < 30; ++i) server_->put_pod("default", "p" + std::to_string(i), kHere);
  bool once = false;
  server_->refuse(
      1, 410, R"({"kind":"Status","code":410,"reason":"Expired","message":"continue token"})",
      [&once](const sim::ApiRequest& r) { return !once && (once = r.query.find("continue=") != std::string::npos); });
  follow(10);
  ASSERT_TRUE(is_watching(30));
  EXPECT_EQ(list_requests(), 5u);
  EXPECT_EQ(table_.size(), 30u);
}

// Promise: api-server/watch: A forgotten version leads to one new list and no lost event.
TEST_F(PodsOfANode, AVersionThatTheServerForgotLeadsToOneNewListAndWhatWasMissedIsReported) {
  server_->put_pod("default", "a", kHere);
  server_->put_pod("default", "b", kHere);
  follow();
  ASSERT_TRUE(is_watching(2));
  server_->mute(true);  // so that the new watch waits while things happen
  server_->cut_watches();
  ASSERT_TRUE(until([&] { return watch_requests() == 2; }));
  server_->delete_pod("default", "a");
  server_->put_pod("default", "b", kGoing);
  server_->put_pod("default", "c", kHere);
  server_->forget_versions();
  server_->mute(false);
  ASSERT_TRUE(until([&] { return list_requests() == 2; }));
  ASSERT_TRUE(is_watching(2));
  EXPECT_EQ(seen(true), 1u);
  EXPECT_EQ(seen(false), 1u);
  EXPECT_NE(table_.find("default", "c"), nullptr);
}

// Promise: api-server/watch: A forgotten version leads to one new list and no lost event.
TEST_F(PodsOfANode, AnAnswerOf410InsteadOfAWatchIsTheSame) {
  server_->refuse(1, 410, R"({"kind":"Status","code":410,"reason":"Gone","message":"too old"})",
                  [](const sim::ApiRequest& r) { return r.is_watch(); });
  server_->put_pod("default", "a", kHere);
  follow();
  ASSERT_TRUE(is_watching(1));
  EXPECT_EQ(list_requests(), 2u);
}

// Promise: api-server/watch: A stream that is cut goes on without a new list.
TEST_F(PodsOfANode, ACutStreamIsTakenUpWhereItWasWithoutANewList) {
  server_->put_pod("default", "a", kHere);
  follow();
  ASSERT_TRUE(is_watching(1));
  for (int i = 0; i < 5; ++i) {
    server_->cut_watches();
    server_->put_pod("default", "n" + std::to_string(i), kHere);
    ASSERT_TRUE(until([&] { return table_.size() == static_cast<std::size_t>(i) + 2; })) << i;
  }
  EXPECT_EQ(list_requests(), 1u);
  EXPECT_GE(reflector().watch_restarts(), 4u);
}

// Promise: api-server/watch: A watch that ends is opened again from the bookmark.
TEST_F(PodsOfANode, AWatchThatTheServerEndsIsOpenedAgainFromTheBookmark) {
  follow();
  ASSERT_TRUE(is_watching(0));
  server_->bookmark();
  server_->bookmark();
  server_->end_watches();
  ASSERT_TRUE(until([&] { return watch_requests() == 2; }));
  EXPECT_THAT(server_->requests().back().query, HasSubstr("resourceVersion=102"));
  EXPECT_EQ(list_requests(), 1u);
}

// Promise: api-server/watch: Events that arrive in pieces of one byte are read whole.
TEST_F(PodsOfANode, EventsInPiecesOfOneByteAreTheSameEvents) {
  server_->piece(1);
  follow();
  ASSERT_TRUE(is_watching(0));
  for (int i = 0; i < 20; ++i) server_->put_pod("default", "p" + std::to_string(i), kHere);
  ASSERT_TRUE(until([&] { return table_.size() == 20; }));
  EXPECT_EQ(list_requests(), 1u);
}

// Promise: api-server/watch: A line that is not JSON leads to a new list.
TEST_F(PodsOfANode, ALineThatIsNotUnderstoodLeadsToANewList) {
  server_->put_pod("default", "a", kHere);
  follow();
  ASSERT_TRUE(is_watching(1));
  server_->send_raw("{\"type\":\"ADDED\",\"object\":\n");
  ASSERT_TRUE(until([&] { return list_requests() == 2; }));
  ASSERT_TRUE(is_watching(1));
  EXPECT_THAT(endings_, ::testing::IsEmpty()) << "nothing has changed";
}

// Promise: api-server/watch: A refused token is read again.
TEST_F(PodsOfANode, ARefusedTokenIsReadAgainAndTheWatchGoesOn) {
  server_->take_token("second");
  follow();
  ASSERT_TRUE(until([&] { return reflector().state() == State::kWaiting; }));
  EXPECT_THAT(reflector().reason(), HasSubstr("401"));
  write("token", "second");
  ASSERT_TRUE(is_watching(0));
}

// Promise: api-server/watch: A server that is down is asked with growing pauses and found again.
TEST_F(PodsOfANode, WhileTheServerIsDownItIsAskedSeldomerAndSeldomerAndThenFoundAgain) {
  follow();
  ASSERT_TRUE(is_watching(0));
  server_->refuse(6, 503, "upstream is away", nullptr);
  server_->cut_watches();
  ASSERT_TRUE(until([&] { return watch_requests() >= 4; }));
  EXPECT_THAT(reflector().reason(), HasSubstr("503"));
  ASSERT_TRUE(is_watching(0));
  EXPECT_EQ(watch_requests(), 8u);
  EXPECT_EQ(list_requests(), 1u);
}

TEST_F(PodsOfANode, SlowAnswersChangeNothing) {
  server_->slow(150ms);
  server_->put_pod("default", "a", kHere);
  follow();
  ASSERT_TRUE(is_watching(1));
  EXPECT_EQ(list_requests(), 1u);
}

// Promise: api-server/watch: The agent stops at once with an open watch.
TEST_F(PodsOfANode, EndAtOnceWithAnOpenWatch) {
  follow();
  ASSERT_TRUE(is_watching(0));
  watch_.reset();
  client_.reset();
  server_->bookmark();
  EXPECT_TRUE(until([&] { return server_->watches() == 0; }));
}

}  // namespace list_watch_test
}  // namespace tranche::kube
