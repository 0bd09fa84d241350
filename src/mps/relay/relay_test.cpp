// The relay between real sockets, with the stand-in daemon behind it and stand-in tenants as clients.
// docs/internals/evidence/mps-handshake.md, "What was tried". Every wait is for an event, with a deadline.
#include "mps/relay/relay_fixture.h"

#include "damage.h"
#include "other_user.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST_F(RelayAtTheEndpoint, LetsACudaProcessInUnderItsOwnNameAndForgetsItWhenItEnds) {
  auto client = start_client(kOne);
  ASSERT_TRUE(until_let_in(kOne, client->pid()));
  ASSERT_TRUE(until([&] { return client->says("attached"); })) << "the connection of its context passes the relay too";
  EXPECT_THAT(client->line_with("attached"), HasSubstr("\"mps\":true"));
  EXPECT_NE(world_.daemon().line_with("NEW CLIENT " + std::to_string(client->pid()) + " from user"), "");
  EXPECT_THAT(came_, ElementsAre(std::pair(std::string(kOne), client->pid())));
  EXPECT_EQ(*relay_->clients().grant_of(client->pid()), kOne);
  EXPECT_THAT(relay_->clients().of(kOther), IsEmpty());
  client->signal(SIGKILL);
  ASSERT_TRUE(until([&] { return !gone_.empty(); }));
  EXPECT_EQ(relay_->clients().grant_of(client->pid()), nullptr);
  relay_->context_ended(client->pid(), 1);
  EXPECT_TRUE(until([&] { return relay_->clients().places(kOne) == 0; })) << "once the server has closed its pipes";
  EXPECT_THAT(ends_, IsEmpty());
}

// Promise: mps/relay: Clients of two users keep their own credentials.
TEST_F(RelayAtTheEndpoint, ClientsOfTwoUsersKeepTheirNames) {
  if (const auto why = why_no_other_user(); !why.empty()) GTEST_SKIP() << why;
  for (const auto& entry : std::filesystem::directory_iterator(world_.dir()))
    ::chmod(entry.path().c_str(), entry.is_directory() ? 0777 : 0666);
  auto root = start_client(kOne);
  auto other = start_client(kOther, 1001);
  ASSERT_TRUE(until_let_in(kOne, root->pid()) && until_let_in(kOther, other->pid()));
  const std::string log = world_.daemon().lines_until("from user 1001");
  EXPECT_THAT(log, HasSubstr("NEW CLIENT " + std::to_string(other->pid()) + " from user 1001"));
  ASSERT_TRUE(until([&] { return other->says("attached"); }));
  EXPECT_THAT(other->line_with("attached"), HasSubstr("\"mps\":true"));
  EXPECT_EQ(not_itself_, "");
}

// Promise: mps/relay: A command is refused and does not reach the daemon.
TEST_F(RelayAtTheEndpoint, RefusesEveryCommandAndTheDaemonHearsNothingOfIt) {
  auto neighbour = start_client(kOther);
  ASSERT_TRUE(until_let_in(kOther, neighbour->pid()));
  const std::string server = std::to_string(world_.server());
  const std::vector<std::string> commands{"terminate_client " + server + " " + std::to_string(neighbour->pid()),
                                          "shutdown_server " + server + " -f",
                                          "set_active_thread_percentage " + server + " 100",
                                          "set_default_active_thread_percentage 100",
                                          "start_server -uid 0",
                                          "get_server_list",
                                          "ps",
                                          "quit"};
  for (const auto& line : commands) EXPECT_EQ(command(line, path(kOne)), "") << line;
  EXPECT_EQ(relay_->counters(kOne).attempts, commands.size());
  EXPECT_THAT(ends_, ::testing::Each(RelayEnd::kCommand));
  EXPECT_EQ(std::to_string(world_.server()), server);
  EXPECT_FALSE(neighbour->ended_within(0ms));
  EXPECT_EQ(world_.ask("get_default_active_thread_percentage"), "100.0\n");
}

// With the control program, as a person runs it in a pod; the daemon itself would print 100.0.
// Promise: mps/relay: A container may ask for its own share and nothing else.
TEST_F(RelayAtTheEndpoint, AnswersAContainerWithItsOwnShareAndTheDaemonHearsNothingOfIt) {
  EXPECT_EQ(command("get_default_active_thread_percentage", path(kOne)), "25.0\n");
  EXPECT_EQ(command("get_default_active_thread_percentage", path(kOther)), "75.0\n");
  EXPECT_EQ(command("get_default_device_pinned_mem_limit 0", path(kOne)), "3G\n");
  EXPECT_EQ(command("get_default_device_pinned_mem_limit 1", path(kOne)), "");
  EXPECT_EQ(relay_->counters(kOne), EndpointCounters{});
  EXPECT_TRUE(ends_.empty());
  EXPECT_EQ(world_.ask("get_default_active_thread_percentage"), "100.0\n");
}

// Promise: mps/relay: A connection that asks without end is closed.
TEST_F(RelayAtTheEndpoint, WhoAsksWithoutEndAndReadsNothingIsCutOff) {
  const sim::Fd fd = introduced(kOne, ConnectionType::kCommands);
  for (unsigned i = 0; i < kMostQuestions; ++i)
    ASSERT_TRUE(sim::send_command(fd.get(), "get_default_active_thread_percentage"));
  (void)sim::send_command(fd.get(), "get_default_active_thread_percentage");
  EXPECT_TRUE(until([&] { return relay_->counters(kOne).attempts == 1; }));
  auto client = start_client(kOne);
  EXPECT_TRUE(until_let_in(kOne, client->pid()));
}

TEST_F(RelayAtTheEndpoint, RefusesTypesThatNoClientHas) {
  for (const unsigned type : {0u, 1u, 3u, 9u, 0x02000000u}) {
    const sim::Fd fd = introduced(kOne, static_cast<ConnectionType>(type));
    EXPECT_EQ(next(fd).bytes, "end") << type;
  }
  EXPECT_EQ(relay_->counters(kOne).attempts, 5u);
}

TEST_F(RelayAtTheEndpoint, RefusesTheCredentialsOfAnotherProcess) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to speak for another process";
  const sim::Fd fd = greeted(kOne);
  sim::introduce(fd.get(), ConnectionType::kClient, {world_.daemon().pid(), 0, 0});
  EXPECT_EQ(next(fd).bytes, "end");
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kNotItself));
}

TEST_F(RelayAtTheEndpoint, ACommandAfterHavingBeenLetInGoesNowhere) {
  const sim::Fd fd = introduced(kOne);
  sim::Packet packet = next(fd);
  ASSERT_EQ(packet.bytes, sim::kDescriptor);
  ASSERT_TRUE(sim::send_type(fd.get(), ConnectionType::kCommands));  // instead of the four zero bytes that are expected
  EXPECT_EQ(next(fd).bytes, "end");
  ASSERT_TRUE(until([&] { return !ends_.empty(); })) << "once the server waits for it";
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kGarbled));
  EXPECT_EQ(relay_->counters(kOne).let_in, 0u);
}

// Promise: mps/relay: Mute connections delay no other client.
TEST_F(RelayAtTheEndpoint, MuteConnectionsOfATenantHoldNobodyUp) {
  std::vector<sim::Fd> mute;
  for (int i = 0; i < 16; ++i) mute.push_back(greeted(kOne));
  EXPECT_TRUE(let_in(kOther).valid());
  EXPECT_NE(world_.server(), 0) << "commands are answered";
}

TEST_F(RelayAtTheEndpoint, MoreHandshakesThanSixteenWaitAndAreNotSentAway) {
  std::vector<sim::Fd> mute;
  for (int i = 0; i < 16; ++i) mute.push_back(greeted(kOne));
  const sim::Fd next_one = sim::connect_to(path(kOne) + "/control");
  (void)greeted(kOther);  // connects later
  EXPECT_FALSE(readable(next_one.get())) << "neither greeted nor hung up on";
  mute.pop_back();
  EXPECT_EQ(next(next_one).bytes, sim::kHello);
}

TEST_F(RelayAtTheEndpoint, BoundsAreThoseOfTheContract) {
  EXPECT_EQ(RelaySettings{}.handshakes_per_grant, 16u);
  EXPECT_EQ(RelaySettings{}.handshakes, 256u);
  EXPECT_EQ(RelaySettings{}.connections_per_grant, 512u);
}

TEST_F(RelayAtTheEndpoint, MoreHandshakesThanThePoolMayHaveWaitAndAreNotSentAway) {
  bounds_.handshakes = 3;
  open_relay();
  std::vector<sim::Fd> mute;
  for (const char* grant : {kOne, kOne, kOther}) mute.push_back(greeted(grant));
  const sim::Fd next_one = sim::connect_to(path(kOther) + "/control");
  turns(50ms);
  EXPECT_FALSE(readable(next_one.get())) << "neither greeted nor hung up on";
  mute.erase(mute.begin());  // of the other grant
  EXPECT_EQ(next(next_one).bytes, sim::kHello);
}

// Many tenants together: none is locked out by the others.
TEST_F(RelayAtTheEndpoint, WhatGrantsHaveTogetherIsBoundedAndLeavesEachItsOwn) {
  const auto kept_out = [&](const char* grant) {
    const sim::Fd fd = sim::connect_to(path(grant) + "/control");
    turns(50ms);
    return !readable(fd.get());
  };
  // Two connections of one grant reach the common limit; one of another grant is still accepted, and no second.
  const auto filled = [&] {
    open_relay();
    std::vector<sim::Fd> held;
    for (int i = 0; i < 2; ++i) held.push_back(greeted(kOne));
    EXPECT_TRUE(kept_out(kOne));
    held.push_back(greeted(kOther));
    EXPECT_TRUE(kept_out(kOther));
    return held;
  };
  bounds_.handshakes = 2;
  filled().clear();
  bounds_ = {};
  bounds_.connections = 2;
  bounds_.connections_always = 1;
  const auto held = filled();
  relay_->close_endpoint(kOne);
  const sim::Fd next_one = greeted(kOther);
}

// The daemon of this test keeps the connections of admitted clients open.
TEST_F(RelayAtTheEndpoint, MoreConnectionsThanAGrantMayHaveWaitAndOtherGrantsDoNot) {
  bounds_.connections_per_grant = 2;
  daemon_socket_ = world_.dir() + "/patient";
  open_relay();
  const sim::Fd listening = sim::listen_at(daemon_socket_, 0666);
  std::vector<sim::Fd> in, accepted, servers;
  std::vector<sim::Packet> handed_over;
  for (std::size_t i = 1; i <= 2; ++i) {
    in.push_back(introduced(kOne));
    ASSERT_TRUE(until([&] { return readable(listening.get()); }));
    accepted.emplace_back(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(sim::send_packet(accepted.back().get(), sim::kHello));
    ASSERT_TRUE(until([&] { return readable(accepted.back().get()); }));
    auto [theirs, server] = sim::socket_pair();
    servers.push_back(std::move(server));
    ASSERT_TRUE(sim::send_packet(servers.back().get(), "welcome"));
    ASSERT_TRUE(sim::send_packet(accepted.back().get(), sim::kDescriptor, theirs.get()));
    handed_over.push_back(next(in.back()));
    EXPECT_EQ(handed_over.back().bytes, sim::kDescriptor);
    ASSERT_TRUE(sim::send_packet(in.back().get(), sim::kAcknowledged));
    ASSERT_TRUE(until([&] { return relay_->counters(kOne).let_in == i; }));
  }
  const sim::Fd third = sim::connect_to(path(kOne) + "/control");
  const sim::Fd other = greeted(kOther);
  EXPECT_FALSE(readable(third.get())) << "neither greeted nor hung up on";
  in.pop_back();
  servers.pop_back();
  EXPECT_EQ(next(third).bytes, sim::kHello);
}

// Promise: mps/relay: A tenant that connects again and again is accepted at a bounded rate, and delays no other grant.
TEST_F(RelayAtTheEndpoint, ConnectionsBeyondTheBurstWaitAndThoseOfOtherGrantsDoNot) {
  bounds_.connections_burst = 4;
  bounds_.connection_every = 1h;
  open_relay();
  for (int i = 0; i < 4; ++i) (void)greeted(kOne);
  const sim::Fd late = sim::connect_to(path(kOne) + "/control");
  (void)greeted(kOther);
  EXPECT_FALSE(readable(late.get())) << "neither greeted nor hung up on";
  bounds_.connection_every = 1ms;
  open_relay();
  for (int i = 0; i < 20; ++i) (void)greeted(kOne);
}

TEST_F(RelayAtTheEndpoint, WhateverLiesInASocketsPlaceIsReplaced) {
  for (const auto& kind : all_damage()) {
    SCOPED_TRACE(kind.name);
    relay_->close_endpoint(kOne);
    kind.spoil(path(kOne) + "/control");
    open_endpoint(kOne);
    const sim::Fd fd = greeted(kOne);
  }
}

TEST_F(RelayWithShortTimes, AConnectionThatSaysNothingIsClosed) {
  const sim::Fd mute = greeted(kOne);
  EXPECT_EQ(next(mute).bytes, "end");
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kMute));
}

TEST_F(RelayWithShortTimes, TwoClientsInARowWithoutAServerMakeTheServerDoubtedAndOneDoesNot) {
  ASSERT_TRUE(let_in(kOther).valid());  // starts the server, which may take longer than the limit below
  times_.server = 1s;
  const std::string daemon = world_.pipe() + "/control", without_server = world_.dir() + "/without-server";
  daemon_socket_ = world_.dir() + "/to-daemon";
  const auto lead_to = [&](const std::string& socket) {
    std::filesystem::remove(daemon_socket_);
    std::filesystem::create_symlink(socket, daemon_socket_);
  };
  lead_to(daemon);
  open_relay();
  const sim::Fd listening = sim::listen_at(without_server, 0666);
  const auto goes_without = [&] {
    lead_to(without_server);
    const sim::Fd client = introduced(kOne);
    ASSERT_TRUE(until([&] { return readable(listening.get()); }));
    const sim::Fd accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(sim::send_packet(accepted.get(), sim::kHello));
    EXPECT_EQ(next(client).bytes, "end");
    EXPECT_EQ(ends_.back(), RelayEnd::kServerLate);
    lead_to(daemon);
  };
  goes_without();
  ASSERT_TRUE(let_in(kOther).valid());
  goes_without();
  EXPECT_EQ(doubts_, 0) << "one was let in between";
  goes_without();
  EXPECT_EQ(doubts_, 1);
}

TEST_F(RelayWithShortTimes, AMuteDaemonIsNotWaitedForWithoutEnd) {
  world_.daemon().signal(SIGSTOP);
  const sim::Fd fd = introduced(kOne);
  EXPECT_EQ(next(fd).bytes, "end");
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kDaemonMute));
  world_.daemon().signal(SIGCONT);
  EXPECT_TRUE(let_in(kOne).valid());
}

TEST_F(RelayWithShortTimes, WhileThePoolDoesNotServeClientsWaitAndInTheEndAreSentAway) {
  relay_->hold();
  const sim::Fd fd = introduced(kOne);
  EXPECT_EQ(next(fd).bytes, "end");
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kNotServed));
}

TEST_F(RelayAtTheEndpoint, AServerThatStartsIsNoStall) {
  // The very first client: its server is started for it, and clients of other grants do not wait for that.
  auto first = start_client(kOne);
  ASSERT_TRUE(until_let_in(kOne, first->pid()));
  EXPECT_EQ(relay_->counters(kOne).completed, 0u);
}

TEST_F(RelayAtTheEndpoint, SixtyFourConnectionsOfFourGrantsAllComeThrough) {
  for (const char* grant : {"0000000000000001", "0000000000000002"}) open_endpoint(grant);
  const std::vector<std::string> grants{kOne, kOther, "0000000000000001", "0000000000000002"};
  std::vector<sim::Fd> waiting;
  for (std::size_t i = 0; i < 64; ++i) {
    waiting.push_back(sim::connect_to(path(grants[i % 4]) + "/control"));
    ASSERT_TRUE(waiting.back().valid());
  }
  // All at once, each as far as it gets.
  std::vector<int> stage(waiting.size());
  std::vector<sim::Fd> servers;
  const auto advance = [&](std::size_t i) {
    sim::Packet packet;
    if (stage[i] == 2 || !readable(waiting[i].get())) return;
    ASSERT_EQ(sim::receive_packet(waiting[i].get(), &packet), sim::Arrived::kPacket);
    if (stage[i]++ == 0) {
      ASSERT_TRUE(sim::introduce(waiting[i].get(), ConnectionType::kClient));
      return;
    }
    ASSERT_EQ(packet.bytes, sim::kDescriptor);
    ASSERT_TRUE(sim::speak_to_server(packet.descriptor.get()));  // it may, before the server has greeted it
    servers.push_back(std::move(packet.descriptor));
    ASSERT_TRUE(sim::send_packet(waiting[i].get(), sim::kAcknowledged));
  };
  EXPECT_TRUE(until([&] {
    for (std::size_t i = 0; i < waiting.size(); ++i) advance(i);
    return servers.size() == waiting.size();
  }));
  EXPECT_TRUE(until([&] {
    std::uint64_t in = 0;
    for (const auto& grant : grants) in += relay_->counters(grant).let_in;
    return in == 64;
  }));
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(RelayAtTheEndpoint, AClientThatWaitsWhileTheDaemonIsReplacedIsLetInByTheNextOne) {
  world_.daemon().signal(SIGKILL);
  world_.daemon().wait();
  const sim::Fd early = introduced(kOne);  // the relay was not notified yet
  turns(20ms);
  relay_->hold();
  const sim::Fd later = introduced(kOther);
  world_.start_daemon({"-M"});
  turns(20ms);
  EXPECT_FALSE(readable(early.get()) || readable(later.get())) << "no client before the limits";
  relay_->serve();
  ASSERT_TRUE(until([&] { return readable(early.get()) || readable(later.get()); }));
  const bool early_first = readable(early.get());
  for (const auto* fd : {early_first ? &early : &later, early_first ? &later : &early}) {
    EXPECT_EQ(next(*fd).bytes, sim::kDescriptor);
    EXPECT_TRUE(sim::send_packet(fd->get(), sim::kAcknowledged));
  }
}

TEST_F(RelayAtTheEndpoint, ANewRelayTakesTheEndpointsOfAnOldOneInPlace) {
  auto tenant = start_client(kOne);
  ASSERT_TRUE(until([&] { return tenant->says("attached"); }));
  relay_.reset();
  EXPECT_FALSE(sim::connect_to(path(kOne) + "/control").valid());
  open_relay();
  EXPECT_TRUE(let_in(kOne).valid());
  EXPECT_FALSE(tenant->ended_within(0ms));
}

TEST_F(RelayAtTheEndpoint, AnEndpointHoldsTheSocketForEveryUserAndNothingElse) {
  const auto names = os::Dir::open(path(kOne))->list();
  ASSERT_TRUE(names);
  EXPECT_THAT(*names, ElementsAre("control"));
  struct stat status{};
  ASSERT_EQ(::stat((path(kOne) + "/control").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode, S_IFSOCK | 0666u);
}

TEST_F(RelayAtTheEndpoint, AGrantThatIsNotAdmittedGetsNoAnswerAndTheOthersComeIn) {
  refusals_[kOne] = "over its memory";
  const sim::Fd fd = introduced(kOne);
  EXPECT_EQ(next(fd).bytes, "end");
  EXPECT_EQ(relay_->counters(kOne).refused, 1u);
  EXPECT_TRUE(let_in(kOther).valid());
  refusals_.clear();
  EXPECT_TRUE(let_in(kOne).valid());
}

TEST_F(RelayAtTheEndpoint, WhoIsLookedAtComesInWhenTheLookIsOverAndNobodyWaitsForAnothersLook) {
  std::vector<std::pair<int, std::function<void(const std::string&)>>> looks;
  look_ = [&](const std::string& grant, int pid, std::function<void(const std::string&)> done) {
    if (grant == kOther) return done("");
    looks.emplace_back(pid, std::move(done));
  };
  open_relay();
  const sim::Fd good = introduced(kOne);
  ASSERT_TRUE(until([&] { return looks.size() == 1; }));
  EXPECT_EQ(looks[0].first, ::getpid());
  const sim::Fd bad = introduced(kOne);
  const sim::Fd gone = introduced(kOne);
  ASSERT_TRUE(until([&] { return looks.size() == 3; }));
  EXPECT_TRUE(let_in(kOther).valid()) << "while the others are looked at";
  EXPECT_FALSE(readable(good.get()));
  looks[1].second("its variable lifts its limit");
  EXPECT_EQ(next(bad).bytes, "end");
  EXPECT_EQ(relay_->counters(kOne).refused, 1u);
  looks[0].second("");
  EXPECT_EQ(next(good).bytes, sim::kDescriptor);
  relay_->close_endpoint(kOne);
  looks[2].second("");  // of a connection that has ended
  relay_.reset();
  looks[2].second("");  // and after the relay is destroyed
}

TEST_F(RelayAtTheEndpoint, AClosedEndpointEndsItsHandshakesAndNobodyElses) {
  relay_->hold();
  const sim::Fd one = introduced(kOne);
  const sim::Fd other = introduced(kOther);
  turns(20ms);
  relay_->close_endpoint(kOne);
  EXPECT_EQ(next(one).bytes, "end");
  relay_->serve();
  EXPECT_EQ(next(other).bytes, sim::kDescriptor);
  EXPECT_FALSE(sim::connect_to(path(kOne) + "/control").valid());
}

TEST_F(RelayAtTheEndpoint, LeavesNoDescriptorBehind) {
  {
    EXPECT_TRUE(let_in(kOne).valid());
  }
  const auto before = open_files();
  for (int i = 0; i < 50; ++i) {
    {
      EXPECT_TRUE(let_in(kOne).valid());
    }
    {
      const sim::Fd look = greeted(kOne);
    }
    {
      const sim::Fd attempt = introduced(kOther, ConnectionType::kCommands);
    }
    {
      const sim::Fd left = introduced(kOther);
    }
  }
  EXPECT_TRUE(until([&] { return open_files() == before; })) << open_files() << " after " << before;
}

// Promise: mps/relay: Without the capability the relay uses its own credentials and reports it.
TEST_F(RelayAtTheEndpoint, WithoutTheRightToSpeakForClientsItUsesItsOwnNameAndSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a right up";
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct all[2]{}, fewer[2]{};
  ASSERT_EQ(::syscall(SYS_capget, &header, all), 0);
  std::ranges::copy(all, fewer);
  fewer[0].effective &= ~(1u << CAP_SYS_ADMIN);
  ASSERT_EQ(::syscall(SYS_capset, &header, fewer), 0);
  auto client = start_client(kOne);
  EXPECT_TRUE(until_let_in(kOne, client->pid())) << "known by its own number here";
  ASSERT_EQ(::syscall(SYS_capset, &header, all), 0);
  EXPECT_THAT(not_itself_, HasSubstr("speak for a client"));
  EXPECT_NE(world_.daemon().line_with("NEW CLIENT " + std::to_string(::getpid()) + " from user 0"), "");
}

}  // namespace
}  // namespace tranche::mps
