#include "mps/keeper/keeper_server.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "mps/keeper/held_fixture.h"
#include "os/files/files.h"
#include "os/files/scratch_fixture.h"
#include "run_until.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class KeeperServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *os::Loop::open();
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit_), 0);
    ASSERT_TRUE(os::Dir::open(scratch_.path())->write_atomically("devices", kTerminalsAreUvm));
  }
  void TearDown() override { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit_), 0); }
  void serve(Duration patience = 1h, std::size_t clients = 8, Duration audit = 1h) {
    auto opened = KeeperServer::open(*loop_,
                                     {.socket = scratch_ / "keeper.sock",
                                      .devices = scratch_ / "devices",
                                      .patience = patience,
                                      .clients = clients,
                                      .audit = audit},
                                     [this] { ended_ = true; });
    ASSERT_TRUE(opened) << to_string(opened.error());
    server_ = *std::move(opened);
    requests_ = std::make_unique<os::StatusClient>(*loop_, scratch_ / "keeper.sock");
  }
  // Where the program may open so many descriptors, a quarter of them for each share.
  void serve_with(rlim_t descriptors, Duration patience = 1h) {
    const rlimit few{descriptors, limit_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    serve(patience);
  }
  std::string ask(const std::string& line) {
    std::optional<std::string> answer;
    requests_->request(line, 60s,
                       [&](const Result<std::string>& got) { answer = got ? *got : to_string(got.error()); });
    EXPECT_TRUE(os::run_until(*loop_, [&] { return answer.has_value(); }));
    return answer.value_or("");
  }
  std::string ask(const KeeperRequest& request) { return ask(to_json(request)); }
  HeldClient held(const HoldsDevices& client) {
    const auto status = read_keeper_status(ask("status"));
    for (const auto& [process, held] : status ? status->clients : std::map<os::ProcessRef, HeldClient>())
      if (process.pid == client.pid()) return held;
    return {};
  }
  HeldState state() {
    const auto status = read_keeper_status(ask("status"));
    return status && status->clients.size() == 1 ? status->clients.begin()->second.state : HeldState::kStarting;
  }
  bool until(const std::function<bool()>& condition) { return os::run_until(*loop_, condition); }

  rlimit limit_{};
  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<KeeperServer> server_;
  std::unique_ptr<os::StatusClient> requests_;
  bool ended_ = false;
};

// Promise: deaths: The GPU work of a client is torn down in order, however the client ended.
TEST_F(KeeperServerTest, AClientIsHeldThroughItsDeath) {
  serve();
  HoldsDevices client(4);
  EXPECT_THAT(ask(HoldRequest{client.ref()}), HasSubstr("true"));
  client.die();
  ASSERT_TRUE(until([&] { return state() == HeldState::kDead; }));
  EXPECT_EQ(client.closed(), 0U);
}

TEST_F(KeeperServerTest, ADeadClientIsReleasedAfterThePatience) {
  serve(1ms);
  HoldsDevices client(4);
  ask(HoldRequest{client.ref()});
  client.die();
  EXPECT_TRUE(until([&] { return client.closed() == 4; }));
}

TEST_F(KeeperServerTest, ADeadClientWithoutDescriptorsIsReleasedAtOnce) {
  serve();
  HoldsDevices client(0);
  ask(HoldRequest{client.ref()});
  client.die();
  EXPECT_TRUE(until([&] { return read_keeper_status(ask("status"))->clients.empty(); }));
}

TEST_F(KeeperServerTest, AProcessThatIsNotTheOneMeantIsNotHeld) {
  serve();
  HoldsDevices client(1);
  auto other = client.ref();
  ++other.start_ticks;
  EXPECT_THAT(ask(HoldRequest{other}), HasSubstr("has exited"));
}

TEST_F(KeeperServerTest, HoldsABoundedNumberOfClients) {
  serve(1h, 1);
  HoldsDevices first(1);
  HoldsDevices second(1);
  ask(HoldRequest{first.ref()});
  EXPECT_THAT(ask(HoldRequest{second.ref()}), HasSubstr("as many clients as it can"));
}

TEST_F(KeeperServerTest, AClientWithoutADeviceSaysSo) {
  serve();
  HoldsDevices client(0);
  ask(HoldRequest{client.ref()});
  EXPECT_TRUE(until([&] { return ask("status").find("has not opened /dev/nvidia-uvm") != std::string::npos; }));
}

// Promise: deaths: The clients of one share, with the dead ones, leave the keeper descriptors for those of others.
TEST_F(KeeperServerTest, AShareHasABoundedNumberOfDescriptors) {
  serve_with(512);
  HoldsDevices first(60);
  HoldsDevices second(60);
  HoldsDevices third(20);
  HoldsDevices other(27);
  ask(HoldRequest{first.ref(), "a"});
  first.die();
  ask(HoldRequest{second.ref(), "a"});
  ask(HoldRequest{third.ref(), "a"});
  ask(HoldRequest{other.ref(), "b"});
  EXPECT_EQ(held(third).files, 8U);
  EXPECT_THAT(held(third).problem, HasSubstr("the clients of its share"));
  EXPECT_EQ(held(other).files, 27U);
  EXPECT_EQ(held(other).problem, "");
}

TEST_F(KeeperServerTest, AShareHasRoomAgainOnceAClientIsReleased) {
  serve_with(512, 1ms);
  HoldsDevices first(60);
  HoldsDevices second(60);
  HoldsDevices third(20);
  for (const auto* client : {&first, &second, &third}) ask(HoldRequest{client->ref(), "a"});
  EXPECT_EQ(held(third).files, 8U);
  first.die();
  EXPECT_TRUE(until([&] { return held(third).files == 20; }));
}

// Promise: deaths: A client that exchanges its descriptors while they are duplicated delays the keeper for no other.
TEST_F(KeeperServerTest, DoesNotLookAgainAtAClientThatExchangesItsDescriptors) {
  serve(1ms);
  HoldsDevices client(3);
  ask(HoldRequest{client.ref()});
  client.exchange_last();
  const auto is_given_up = [&] {
    ask(HoldRequest{client.ref()});
    const auto now = held(client);
    return now.state == HeldState::kHeld && now.problem == kExchanges;
  };
  EXPECT_TRUE(until(is_given_up));
  client.die();
  EXPECT_TRUE(until([&] { return client.closed() == 3 && !client.has_pipe(); }));
}

// Promise: deaths: A client that hides descriptors in a thread with a table of its own is reported as not held.
TEST_F(KeeperServerTest, AThreadWithDescriptorsOfItsOwnIsReported) {
  serve();
  HoldsDevices client(1);
  client.start_thread(true);
  ask(HoldRequest{client.ref()});
  ASSERT_TRUE(until([&] { return held(client).state == HeldState::kHeld; }));
  EXPECT_THAT(held(client).problem, HasSubstr("do not share their descriptors"));
}

TEST_F(KeeperServerTest, LooksAgainAfterTheLastLookOfASeries) {
  serve();
  HoldsDevices client(1);
  ask(HoldRequest{client.ref()});
  ask(HoldRequest{client.ref()});
  ASSERT_TRUE(until([&] { return held(client).state == HeldState::kHeld; }));
  client.open_one();
  ask(HoldRequest{client.ref()});
  EXPECT_TRUE(until([&] { return held(client).files == 2; }));
}

// Promise: deaths: Clients with many descriptors do not delay when the keeper holds another.
TEST_F(KeeperServerTest, AnswersBetweenTheLooksThatAreDue) {
  serve();
  HoldsDevices other(4);
  std::vector<std::unique_ptr<HoldsDevices>> many;
  for (int i = 0; i < 4; ++i) many.push_back(std::make_unique<HoldsDevices>(1));
  for (const auto& each : many) {
    each->open_others(3000);
    ask(HoldRequest{each->ref(), "a"});
  }
  EXPECT_THAT(ask(HoldRequest{other.ref(), "b"}), HasSubstr("true"));
  EXPECT_EQ(held(other).files, 4U);
  EXPECT_TRUE(until([&] { return held(other).state == HeldState::kHeld; }));
  for (const auto& each : many) EXPECT_TRUE(until([&] { return held(*each).state == HeldState::kHeld; }));
}

TEST_F(KeeperServerTest, KeepsWhatItHoldsWhereTheDevicesCannotBeRead) {
  serve();
  HoldsDevices client(2);
  ask(HoldRequest{client.ref()});
  ASSERT_EQ(::unlink((scratch_ / "devices").c_str()), 0);
  client.open_one();
  ask(HoldRequest{client.ref()});
  EXPECT_TRUE(until([&] { return held(client).files == 3; }));
}

TEST_F(KeeperServerTest, EndsAtOnceWhereNoClientLives) {
  serve();
  ask(EndRequest{});
  EXPECT_TRUE(until([&] { return ended_; }));
}

TEST_F(KeeperServerTest, EndsOnlyOnceTheDeadAreReleased) {
  serve(1ms);
  HoldsDevices client(1);
  ask(HoldRequest{client.ref()});
  client.die();
  ask(EndRequest{});
  ASSERT_TRUE(until([&] { return ended_; }));
  EXPECT_EQ(client.closed(), 1U);
}

TEST_F(KeeperServerTest, EndsOnceItsSocketIsGone) {
  serve(1h, 8, 1ms);
  ASSERT_EQ(::unlink((scratch_ / "keeper.sock").c_str()), 0);
  EXPECT_TRUE(until([&] { return ended_; }));
}

TEST_F(KeeperServerTest, IsTheOnlyOneOfItsSocket) {
  serve();
  const auto second = KeeperServer::open(*loop_, {.socket = scratch_ / "keeper.sock"}, [] {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, Kind::kConflict);
}

TEST_F(KeeperServerTest, ARequestThatItDoesNotKnowIsRefused) {
  serve();
  EXPECT_THAT(ask(R"({"request":"kill","pid":1,"started":1})"), HasSubstr("error"));
}

}  // namespace
}  // namespace tranche::mps
