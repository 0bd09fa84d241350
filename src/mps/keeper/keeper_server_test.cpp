#include "mps/keeper/keeper_server.h"

#include <gmock/gmock.h>

#include "mps/keeper/held_fixture.h"
#include "os/files/files.h"
#include "os/files/scratch.h"
#include "run_until.h"

namespace tranche::host {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class KeeperServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *Loop::open();
    ASSERT_TRUE(Dir::open(scratch_.path())->write_atomically("devices", kTerminalsAreUvm));
  }
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
    requests_ = StatusClient::open(*loop_, scratch_ / "keeper.sock");
  }
  std::string ask(const std::string& line) {
    std::optional<std::string> answer;
    requests_->request(line, 60s,
                       [&](const Result<std::string>& got) { answer = got ? *got : to_string(got.error()); });
    EXPECT_TRUE(run_until(*loop_, [&] { return answer.has_value(); }));
    return answer.value_or("");
  }
  std::string ask(const mps::KeeperRequest& request) { return ask(to_json(request)); }
  mps::HeldState state() {
    const auto status = mps::read_keeper_status(ask("status"));
    return status && status->clients.size() == 1 ? status->clients[0].state : mps::HeldState::kStarting;
  }
  bool until(const std::function<bool()>& condition) { return run_until(*loop_, condition); }

  Scratch scratch_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<KeeperServer> server_;
  std::unique_ptr<StatusClient> requests_;
  bool ended_ = false;
};

// Promise: deaths: The GPU work of a client is torn down in order, however the client ended.
TEST_F(KeeperServerTest, AClientIsHeldThroughItsDeath) {
  serve();
  HoldsDevices client(4);
  EXPECT_THAT(ask(mps::HoldRequest{client.ref()}), HasSubstr("true"));
  client.die();
  ASSERT_TRUE(until([&] { return state() == mps::HeldState::kDead; }));
  EXPECT_EQ(client.closed(), 0U);
}

TEST_F(KeeperServerTest, ADeadClientIsReleasedAfterThePatience) {
  serve(1ms);
  HoldsDevices client(4);
  ask(mps::HoldRequest{client.ref()});
  client.die();
  EXPECT_TRUE(until([&] { return client.closed() == 4; }));
}

TEST_F(KeeperServerTest, ADeadClientWithoutDescriptorsIsReleasedAtOnce) {
  serve();
  HoldsDevices client(0);
  ask(mps::HoldRequest{client.ref()});
  client.die();
  EXPECT_TRUE(until([&] { return mps::read_keeper_status(ask("status"))->released == 1; }));
}

TEST_F(KeeperServerTest, AProcessThatIsNotTheOneMeantIsNotHeld) {
  serve();
  HoldsDevices client(1);
  auto other = client.ref();
  ++other.start_ticks;
  EXPECT_THAT(ask(mps::HoldRequest{other}), HasSubstr("has exited"));
}

TEST_F(KeeperServerTest, HoldsABoundedNumberOfClients) {
  serve(1h, 1);
  HoldsDevices first(1);
  HoldsDevices second(1);
  ask(mps::HoldRequest{first.ref()});
  EXPECT_THAT(ask(mps::HoldRequest{second.ref()}), HasSubstr("as many clients as it can"));
}

TEST_F(KeeperServerTest, AClientWithoutADeviceSaysSo) {
  serve();
  HoldsDevices client(0);
  ask(mps::HoldRequest{client.ref()});
  EXPECT_TRUE(until([&] { return ask("status").find("has not opened /dev/nvidia-uvm") != std::string::npos; }));
}

TEST_F(KeeperServerTest, KeepsWhatItHoldsWhereTheDevicesCannotBeRead) {
  serve();
  HoldsDevices client(2);
  ask(mps::HoldRequest{client.ref()});
  ASSERT_EQ(::unlink((scratch_ / "devices").c_str()), 0);
  client.open_one();
  ask(mps::HoldRequest{client.ref()});
  EXPECT_THAT(ask("status"), HasSubstr(R"("descriptors":3)"));
}

TEST_F(KeeperServerTest, EndsAtOnceWhereNoClientLives) {
  serve();
  ask(mps::EndRequest{});
  EXPECT_TRUE(until([&] { return ended_; }));
}

TEST_F(KeeperServerTest, EndsOnlyOnceTheDeadAreReleased) {
  serve(1ms);
  HoldsDevices client(1);
  ask(mps::HoldRequest{client.ref()});
  client.die();
  ask(mps::EndRequest{});
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
}  // namespace tranche::host
