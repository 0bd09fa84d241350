// `tranche-keeper` as a real process, and its clients.
#include "mps/keeper/keeper.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "mps/keeper/held_files.h"
#include "mps/keeper/held_fixture.h"
#include "os/files/scratch_fixture.h"
#include "os/socket/unix_socket.h"
#include "run_until.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using State = Protection::State;

class KeeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *os::Loop::open();
    ASSERT_TRUE(os::Dir::open(scratch_.path())->write_atomically("devices", kTerminalsAreUvm));
    start();
  }
  void TearDown() override {
    if (!keeper_) start();
    const auto pid = keeper_pid();
    keeper_.reset();
    if (pid > 0) ::kill(pid, SIGKILL);
  }
  void start(Duration silence = 1h) {
    keeper_ = std::make_unique<Keeper>(
        *loop_,
        KeeperClientSettings{.mps_root = scratch_.path(),
                             .home = {},
                             .program = std::string(std::getenv("TRANCHE_BUILD")) + "/bin/tranche-keeper",
                             .devices = scratch_ / "devices",
                             .silence = silence},
        [] {});
  }
  // The process that listens on the socket.
  pid_t keeper_pid() { return os::probe_listener(scratch_ / "keeper.sock").pid; }
  bool until(const std::function<bool()>& condition) { return os::run_until(*loop_, condition); }
  bool is_held(const HoldsDevices& client) {
    return until([&] { return keeper_->of(client.pid()).state == State::kYes; });
  }
  bool hold(const HoldsDevices& client, const std::string& grant = "grant") {
    keeper_->hold(client.pid(), grant);
    return is_held(client);
  }

  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  std::unique_ptr<Keeper> keeper_;
};

TEST_F(KeeperTest, AClientIsHeldThroughItsDeathAndReleasedAfterThePatience) {
  HoldsDevices client(4);
  ASSERT_TRUE(hold(client));
  HoldsDevices idle(1);
  ASSERT_TRUE(hold(idle, "other"));
  const auto pid = client.pid(), idle_pid = idle.pid();
  client.die();
  idle.die();
  keeper_->exited(pid, true);
  keeper_->exited(idle_pid, false);
  EXPECT_TRUE(keeper_->keeps_memory("grant"));
  EXPECT_FALSE(keeper_->keeps_memory("other")) << "it had no context";
  EXPECT_THAT(keeper_->dead("grant"), ::testing::ElementsAre(pid));
  EXPECT_THAT(keeper_->dead("other"), ::testing::ElementsAre(idle_pid));
  EXPECT_TRUE(until([&] { return client.closed() == 4; }));
  EXPECT_TRUE(until([&] { return keeper_->status().clients.empty(); }));
  EXPECT_FALSE(keeper_->keeps_memory("grant"));
  EXPECT_THAT(keeper_->dead("grant"), ::testing::IsEmpty());
}

TEST_F(KeeperTest, OutlivesTheProgramThatStartedIt) {
  HoldsDevices client(2);
  ASSERT_TRUE(hold(client));
  const auto pid = keeper_pid();
  ASSERT_GT(pid, 0);
  keeper_.reset();
  start();
  ASSERT_TRUE(is_held(client)) << "also without a new order";
  EXPECT_EQ(keeper_pid(), pid);
}

TEST_F(KeeperTest, IsStartedAgainAndHoldsTheClientsThatLive) {
  HoldsDevices client(2);
  ASSERT_TRUE(hold(client));
  const auto before = keeper_pid();
  ::kill(before, SIGKILL);
  ASSERT_TRUE(until([&] { return keeper_->of(client.pid()).state == State::kNo; }));
  ASSERT_TRUE(is_held(client));
  EXPECT_NE(keeper_pid(), before);
}

// Promise: deaths: A keeper that does not answer is replaced, also one that an earlier program has started.
TEST_F(KeeperTest, ThatDoesNotAnswerIsReplaced) {
  HoldsDevices client(2);
  ASSERT_TRUE(hold(client));
  const auto before = keeper_pid();
  keeper_.reset();
  start(100ms);
  ASSERT_TRUE(hold(client));
  ::kill(before, SIGSTOP);
  ASSERT_TRUE(until([&] { return keeper_->of(client.pid()).state == State::kNo; }));
  ASSERT_TRUE(is_held(client));
  EXPECT_NE(keeper_pid(), before);
}

TEST_F(KeeperTest, ThatCannotBeStartedSaysWhy) {
  HoldsDevices client(1);
  keeper_ = std::make_unique<Keeper>(
      *loop_, KeeperClientSettings{.mps_root = scratch_.path(), .home = {}, .program = scratch_ / "absent"}, [] {});
  keeper_->hold(client.pid(), "grant");
  ASSERT_TRUE(until([&] { return keeper_->of(client.pid()).state == State::kNo; }));
  EXPECT_THAT(keeper_->of(client.pid()).why, ::testing::HasSubstr("absent"));
}

TEST_F(KeeperTest, HoldsWhatAClientOpensLater) {
  HoldsDevices client(1);
  ASSERT_TRUE(hold(client));
  client.open_one();
  keeper_->look(client.pid());
  const auto held = [&] { return keeper_->status().clients.at(client.ref()).files == 2; };
  EXPECT_TRUE(until(held));
}

// Promise: deaths: A client that the keeper has no descriptors for is reported, and held as soon as there are some.
TEST_F(KeeperTest, WithoutDescriptorsItSaysSoUntilAClientHasExited) {
  HoldsDevices first(8);
  ASSERT_TRUE(hold(first));
  // For what it has open, and a part of the second client's.
  const std::filesystem::directory_iterator open("/proc/" + std::to_string(keeper_pid()) + "/fd");
  const rlim_t most = static_cast<rlim_t>(std::distance(begin(open), end(open))) + kFilesOfOurOwn + 4;
  const rlimit few{most, most};
  ASSERT_EQ(::prlimit(keeper_pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  HoldsDevices second(16);
  HoldsDevices third(2);
  keeper_->hold(second.pid(), "second");
  keeper_->hold(third.pid(), "third");
  const auto is_refused = [&](const HoldsDevices& client) {
    const auto now = keeper_->of(client.pid());
    return now.state == State::kNo && now.why.find("LimitNOFILE") != std::string::npos;
  };
  EXPECT_TRUE(until([&] { return is_refused(second) && is_refused(third); }));
  EXPECT_EQ(keeper_->of(first.pid()).state, State::kYes);
  EXPECT_EQ(keeper_->status().most_files, most);
  first.die();
  second.die();
  EXPECT_TRUE(is_held(third));
}

}  // namespace
}  // namespace tranche::mps
