#include "mps/relay/relay.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock/clock.h"
#include "os/process/process.h"
#include "run_until.h"

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kGrant = "0011223344556677";

class Clients : public ::testing::Test {
 protected:
  ~Clients() override {
    while (!running_.empty()) end(running_.back());
  }
  int start() {
    const int pid = ::fork();
    if (pid == 0)
      for (;;) ::pause();
    running_.push_back(pid);
    return pid;
  }
  void end(int pid) {
    if (std::erase(running_, pid) == 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  void end_and_notice(int pid) {
    end(pid);
    ASSERT_TRUE(os::run_until(*loop_, [&] { return std::ranges::find(gone_, pid) != gone_.end(); }));
  }
  int client() {
    const int pid = start();
    EXPECT_TRUE(clients_.remember(kGrant, pid, *os::open_pidfd(pid)));
    clients_.in_container(pid, "pod p c", 7);
    clients_.gets(pid, ++last_, "pipe:[1]");
    clients_.connected(pid, last_, 0);
    return pid;
  }
  void connect(int pid, std::uint32_t number) {
    clients_.gets(pid, ++last_, "pipe:[" + std::to_string(number + 1) + "]");
    clients_.connected(pid, last_, number);
  }
  void make_context(int pid, std::uint32_t number) {
    connect(pid, number);
    clients_.context_began(pid, number);
  }

  std::unique_ptr<os::Loop> loop_ = *os::Loop::open();
  std::vector<int> running_, gone_;
  ConnectionId last_ = 0;
  ClientTable clients_{*loop_, [this](int pid) { gone_.push_back(pid); }};
};

TEST_F(Clients, TheNextContextHasOneMoreThanTheHighestNumber) {
  EXPECT_EQ(clients_.next_context(start()), 0u) << "not a client";
  const int pid = client();
  EXPECT_EQ(clients_.next_context(pid), 1u);
  make_context(pid, 1);
  make_context(pid, 2);
  clients_.context_ended(pid, 2);
  EXPECT_EQ(clients_.next_context(pid), 3u);
  connect(pid, 0);  // which the relay completed for a client that had left
  EXPECT_EQ(clients_.next_context(pid), 3u);
  connect(pid, 0x7fffffff);
  EXPECT_EQ(clients_.next_context(pid), 0x7fffffffu) << "no negative number";
}

// Promise: mps/relay: A client takes a place of the server for each context, and one before the first.
TEST_F(Clients, TakeAPlaceForEachContext) {
  const int pid = client();
  EXPECT_EQ(clients_.places(kGrant), 1u);
  make_context(pid, 1);
  EXPECT_EQ(clients_.places(kGrant), 1u);
  make_context(pid, 2);
  connect(pid, 3);
  EXPECT_EQ(clients_.places(kGrant), 3u) << "one has passed the relay, and the server has not named it yet";
  clients_.context_began(pid, 7);
  EXPECT_EQ(clients_.places(kGrant), 4u) << "the client gave the relay a different number";
  for (const std::uint32_t number : {1, 2, 3, 7}) clients_.context_ended(pid, number);
  EXPECT_EQ(clients_.places(kGrant), 3u) << "their connections may be open";
  EXPECT_TRUE(clients_.looked(std::set<Channel>{"pipe:[1]"}));
  EXPECT_EQ(clients_.places(kGrant), 1u);
}

// Promise: mps/relay: A process that says that a further connection is its own has a place for it.
TEST_F(Clients, HaveOneConnectionOfTheirOwn) {
  const int pid = client();
  make_context(pid, 1);
  make_context(pid, 0);
  make_context(pid, 0);
  EXPECT_EQ(clients_.places(kGrant), 3u);
  EXPECT_EQ(clients_.contexts(pid), 3u);
}

// Promise: mps/relay: Each connection of a process takes a place, whatever number it gives, before it makes a context.
TEST_F(Clients, TakeAPlaceForEachConnectionThatRepeatsTheNumberOfAContext) {
  const int pid = client();
  make_context(pid, 1);
  for (int i = 0; i < 3; ++i) connect(pid, 1);
  EXPECT_EQ(clients_.places(kGrant), 4u);
  for (int i = 0; i < 3; ++i) clients_.context_began(pid, 1);
  EXPECT_EQ(clients_.places(kGrant), 4u);
}

TEST_F(Clients, ThatExitAreGoneWhenTheServerHasClosedTheirChannels) {
  const int pid = client();
  make_context(pid, 1);
  clients_.context_ended(pid, 1);
  end_and_notice(pid);
  EXPECT_EQ(clients_.places(kGrant), 1u) << "another process may have the channels, and may make a context";
  EXPECT_FALSE(clients_.looked(std::set<Channel>{"pipe:[2]", "pipe:[9]"}));
  EXPECT_THAT(clients_.remnants(kGrant), ElementsAre(pid));
  EXPECT_THAT(clients_.remnant(pid)->channels(), ElementsAre("pipe:[2]"));
  EXPECT_TRUE(clients_.looked(std::set<Channel>{"pipe:[9]"}));
  EXPECT_EQ(clients_.places(kGrant), 0u);
  EXPECT_FALSE(clients_.waits_for_server());
}

// Promise: mps/relay: A context that is made after the client's exit counts for its grant.
TEST_F(Clients, ThatHaveExitedCountForTheContextsThatOthersMake) {
  const int pid = client();
  end_and_notice(pid);
  EXPECT_FALSE(clients_.listed(os::boot_ticks() + 1, {}, true)) << "a list has only clients with contexts";
  for (int i = 0; i < 3; ++i) clients_.context_began(pid, 1);
  EXPECT_EQ(clients_.places(kGrant), 3u);
}

// Promise: mps/relay: A client that exits before its server is known remains until it is.
TEST_F(Clients, ThatExitRemainWhileTheServersPipesAreNotKnown) {
  const int idle = client(), busy = client();
  make_context(busy, 1);
  end_and_notice(idle);
  end_and_notice(busy);
  (void)clients_.looked(std::nullopt);
  EXPECT_THAT(clients_.remnants(kGrant), UnorderedElementsAre(idle, busy));
  EXPECT_TRUE(clients_.looked(std::set<Channel>{"pipe:[2]"}));
  EXPECT_THAT(clients_.remnants(kGrant), ElementsAre(busy));
}

// Promise: mps/relay: A client has one place for its own connection and one that is inherited from it.
TEST_F(Clients, LeaveNoSecondPlaceWithWhatIsInherited) {
  const int pid = client();
  clients_.gets(pid, 5, "pipe:[5]");
  EXPECT_EQ(clients_.places(kGrant), 1u);
  end_and_notice(pid);
  clients_.inherit(pid, 999999, 5, kGrant);
  EXPECT_THAT(clients_.remnants(kGrant), UnorderedElementsAre(pid, 999999));
  EXPECT_EQ(clients_.places(kGrant), 1u);
  ClientTable next{*loop_, [](int) {}};
  for (const auto& each : clients_.stored()) next.restore(each);
  EXPECT_EQ(next.places(kGrant), 1u);
  for (auto* table : {&clients_, &next}) {
    EXPECT_TRUE(table->looked(std::set<Channel>{"pipe:[1]"})) << "what was inherited is closed";
    EXPECT_THAT(table->remnants(kGrant), ElementsAre(pid));
    EXPECT_EQ(table->places(kGrant), 1u);
  }
}

// Promise: mps/relay: A process whose first connection has a context's number has a place for each of its connections.
TEST_F(Clients, WithoutAConnectionOfTheirOwnHaveAPlaceForEach) {
  const int pid = start();
  ASSERT_TRUE(clients_.remember(kGrant, pid, *os::open_pidfd(pid)));
  for (const std::uint32_t number : {7, 1, 2}) connect(pid, number);
  EXPECT_EQ(clients_.places(kGrant), 3u);
  EXPECT_TRUE(clients_.looked(std::set<Channel>{"pipe:[2]", "pipe:[3]"}));
  EXPECT_EQ(clients_.places(kGrant), 2u);
}

// Promise: mps/relay: A connection that ends without a context has no place any more, though the server never named it.
TEST_F(Clients, HaveNoPlaceForAConnectionThatHasEndedWithoutAContext) {
  const int pid = client();
  for (const std::uint32_t number : {1, 2}) connect(pid, number);
  EXPECT_EQ(clients_.places(kGrant), 2u);
  EXPECT_TRUE(clients_.waits_for_server());
  EXPECT_TRUE(clients_.looked(std::set<Channel>{"pipe:[1]"}));
  EXPECT_EQ(clients_.places(kGrant), 1u);
  EXPECT_EQ(clients_.contexts(pid), 0u);
}

// Promise: mps/relay: What a client leaves by its exit within the exchange counts until the server has closed it.
TEST_F(Clients, ThatExitInTheExchangeLeaveAConnectionThatCounts) {
  const int pid = start();
  ASSERT_TRUE(clients_.remember(kGrant, pid, *os::open_pidfd(pid)));
  clients_.in_container(pid, "pod p c", 7);
  clients_.gets(pid, 5, "pipe:[5]");
  end_and_notice(pid);
  clients_.inherit(pid, 999999, 5, kGrant);
  EXPECT_THAT(clients_.remnants(kGrant), ElementsAre(999999));
  EXPECT_EQ(clients_.remnant(999999)->container, "pod p c");
  EXPECT_EQ(clients_.places(kGrant), 1u);
  for (int i = 0; i < 2; ++i) clients_.context_began(999999, 1);
  EXPECT_EQ(clients_.places(kGrant), 2u);
  for (int i = 0; i < 2; ++i) clients_.context_ended(999999, 1);
  EXPECT_FALSE(clients_.looked(std::set<Channel>{"pipe:[5]"}));
  EXPECT_TRUE(clients_.looked(std::set<Channel>{}));
  EXPECT_EQ(clients_.places(kGrant), 0u);
}

// Promise: mps/relay: A client that exits in an exchange and has other connections remains.
TEST_F(Clients, ThatExitInTheExchangeRemainIfTheyHaveOtherConnections) {
  const int pid = start();
  ASSERT_TRUE(clients_.remember(kGrant, pid, *os::open_pidfd(pid)));
  make_context(pid, 1);
  clients_.context_ended(pid, 1);
  clients_.gets(pid, 5, "pipe:[5]");
  end_and_notice(pid);
  clients_.inherit(pid, 999999, 5, kGrant);
  EXPECT_THAT(clients_.remnants(kGrant), UnorderedElementsAre(pid, 999999));
  EXPECT_THAT(clients_.remnant(pid)->channels(), ElementsAre("pipe:[2]"));
  clients_.context_began(pid, 1);
  EXPECT_EQ(clients_.places(kGrant), 2u);
}

// Promise: mps/relay: A connection whose context has ended keeps its place while a process has its channels.
TEST_F(Clients, HaveAPlaceForAConnectionWhoseContextHasEnded) {
  const int pid = client();
  for (int i = 0; i < 3; ++i) {
    clients_.gets(pid, ++last_, "pipe:[" + std::to_string(10 + i) + "]");
    clients_.connected(pid, last_, 1);
    clients_.context_began(pid, 1);
    clients_.context_ended(pid, 1);
  }
  EXPECT_EQ(clients_.beyond_first(pid), 3u);
  EXPECT_TRUE(clients_.waits_for_server());
  EXPECT_TRUE(clients_.looked(std::set<Channel>{"pipe:[1]", "pipe:[10]", "pipe:[12]"}));
  EXPECT_EQ(clients_.places(kGrant), 2u);
  EXPECT_TRUE(clients_.looked(std::nullopt)) << "what is open is not known: the contexts count";
  EXPECT_EQ(clients_.places(kGrant), 1u);
  EXPECT_TRUE(clients_.looked(std::set<Channel>{"pipe:[10]", "pipe:[12]"}));
  EXPECT_EQ(clients_.places(kGrant), 2u) << "its own connection has ended";
  EXPECT_TRUE(clients_.looked(std::set<Channel>{}));
  EXPECT_FALSE(clients_.waits_for_server());
  EXPECT_EQ(clients_.places(kGrant), 1u);
}

// Promise: mps/relay: After a restart a client counts for the contexts that it had, and one that exited remains.
TEST_F(Clients, AreTheSameInTheNextProgram) {
  const int lives = client(), exits = client(), left = client(), other = start();
  for (const int pid : {lives, exits, left}) {
    clients_.in_container(pid, "pod p c", os::process_ref(pid)->start_ticks);
    for (const std::uint32_t number : {1, 2, 3}) make_context(pid, number);
  }
  ASSERT_TRUE(clients_.remember(kGrant, other, *os::open_pidfd(other)));
  end_and_notice(exits);
  clients_.tried(exits);
  const auto stored = clients_.stored();
  EXPECT_EQ(stored.size(), 3u) << "without its start a process is not known again";
  end(left);  // while no program runs

  ClientTable next{*loop_, [this](int pid) { gone_.push_back(-pid); }};
  for (const auto& each : stored) next.restore(each);
  EXPECT_THAT(next.of(kGrant), ElementsAre(lives));
  EXPECT_THAT(next.remnants(kGrant), UnorderedElementsAre(exits, left));
  EXPECT_EQ(next.places(kGrant), 9u);
  EXPECT_EQ(next.remnant(exits)->tries, 1u);
  EXPECT_EQ(next.remnant(left)->container, "pod p c");
  next.connected(lives, 4, 4);
  EXPECT_EQ(next.contexts(lives), 4u);
  EXPECT_TRUE(next.looked(std::set<Channel>{}));
  EXPECT_THAT(next.remnants(kGrant), IsEmpty());
  end(lives);
  EXPECT_TRUE(os::run_until(*loop_, [&] { return std::ranges::find(gone_, -lives) != gone_.end(); }));
}

TEST_F(Clients, WhosePidAnotherProcessHasByNowAreOnesThatExited) {
  const int pid = client();
  clients_.in_container(pid, "pod p c", os::process_ref(pid)->start_ticks - 1);
  ClientTable next{*loop_, [](int) {}};
  for (const auto& each : clients_.stored()) next.restore(each);
  EXPECT_THAT(next.of(kGrant), IsEmpty());
  EXPECT_THAT(next.remnants(kGrant), ElementsAre(pid));
}

TEST_F(Clients, ExitWithTheContextsThatTheyHad) {
  const int pid = client();
  make_context(pid, 1);
  end(pid);
  EXPECT_FALSE(clients_.looked(std::set<Channel>{}));
  EXPECT_EQ(clients_.contexts(pid), 1u) << "its exit is not noticed yet";
  clients_.notice(pid);
  EXPECT_TRUE(clients_.looked(std::set<Channel>{}));
  EXPECT_EQ(clients_.contexts(pid), 0u);
}

// Promise: mps/relay: A client that has exited keeps its places until the server has closed its contexts.
TEST_F(Clients, ThatExitKeepTheirPlacesUntilTheServerHasClosedTheirContexts) {
  const int pid = client();
  make_context(pid, 1);
  make_context(pid, 2);
  end_and_notice(pid);
  EXPECT_EQ(clients_.grant_of(pid), nullptr);
  EXPECT_THAT(clients_.of(kGrant), IsEmpty());
  EXPECT_THAT(clients_.remnants(kGrant), ElementsAre(pid));
  EXPECT_EQ(clients_.places(kGrant), 2u);
  ASSERT_TRUE(clients_.remnant(pid));
  EXPECT_THAT(clients_.remnant(pid)->channels(), ElementsAre("pipe:[1]", "pipe:[2]", "pipe:[3]"));
  EXPECT_EQ(clients_.remnant(pid)->container, "pod p c");
  EXPECT_FALSE(clients_.context_ended(pid, 1));
  EXPECT_EQ(clients_.places(kGrant), 2u);
  EXPECT_TRUE(clients_.looked(std::set<Channel>{"pipe:[1]", "pipe:[3]"}));
  EXPECT_EQ(clients_.places(kGrant), 1u);
  EXPECT_FALSE(clients_.context_ended(pid, 2));
  EXPECT_TRUE(clients_.looked(std::set<Channel>{}));
  EXPECT_EQ(clients_.places(kGrant), 0u);
}

TEST_F(Clients, ThatHaveExitedAreGoneWhenALaterListLacksThem) {
  const int pid = client();
  make_context(pid, 1);
  const auto before = os::boot_ticks();
  end_and_notice(pid);
  const auto now = os::boot_ticks();
  EXPECT_FALSE(clients_.listed(before - 1, {}, false)) << "a list from before its exit";
  EXPECT_FALSE(clients_.listed(now + 1, {pid}, false));
  EXPECT_TRUE(clients_.remnant(pid)->listed);
  EXPECT_TRUE(clients_.listed(now + 1, {}, false));
  EXPECT_THAT(clients_.remnants(kGrant), IsEmpty());
}

TEST_F(Clients, OfAContainerAreThoseOfAllGrants) {
  const int mine = client(), other = start(), elsewhere = client(), gone = client();
  ASSERT_TRUE(clients_.remember("8899aabbccddeeff", other, *os::open_pidfd(other)));
  clients_.in_container(other, "pod p c", 7);
  clients_.in_container(elsewhere, "pod p d", 7);
  end(gone);
  EXPECT_THAT(clients_.clients_in("pod p c"), UnorderedElementsAre(mine, other));
}

}  // namespace
}  // namespace tranche::mps
