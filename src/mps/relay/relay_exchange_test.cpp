// The exchange between a client and its server, which the relay carries: with the stand-in's server, and with servers
// that the test plays. docs/internals/evidence/mps-handshake.md, "What a client that breaks off leaves".
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "mps/relay/connecting_fixture.h"
#include "mps/relay/relay_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Ne;

// Promise: mps/relay: A client that is late delays neither commands nor other handshakes, and is admitted.
TEST_F(RelayAtTheEndpoint, AClientThatIsLateHoldsNeitherCommandsNorOtherHandshakesUpAndIsLetIn) {
  const sim::Fd late = introduced(kOne);
  const sim::Packet packet = next(late);
  ASSERT_EQ(packet.bytes, sim::kDescriptor);
  EXPECT_NE(world_.ask("get_default_active_thread_percentage"), "");
  EXPECT_TRUE(let_in(kOther).valid());
  ASSERT_TRUE(until([&] { return relay_->counters(kOne).let_in == 1; })) << "the relay speaks for it";
  EXPECT_TRUE(join(packet.descriptor).valid()) << "it notices nothing";
  ASSERT_TRUE(sim::send_packet(late.get(), sim::kAcknowledged));
  EXPECT_EQ(next(late).bytes, "end");
  EXPECT_EQ(relay_->counters(kOne).completed, 1u);
  EXPECT_THAT(ends_, IsEmpty());
}

// Promise: mps/relay: However a client breaks off with its server, the server accepts the next one.
TEST_F(RelayAtTheEndpoint, HoweverAClientBreaksOffWithItsServerTheServerTakesTheNextOne) {
  auto running = start_client(kOther);
  ASSERT_TRUE(until_let_in(kOther, running->pid()));
  using Way = std::function<void(sim::Fd & client, sim::Fd & exchange)>;
  const auto greeted_by_server = [this](const sim::Fd& exchange) {
    for (int i = 0; i <= sim::kServerDescriptors; ++i) next(exchange);
  };
  const std::map<std::string, Way> ways{
      {"closes without reading", [](auto&, auto& exchange) { exchange.reset(); }},
      {"closes after the greeting", [&](auto&, auto& exchange) { greeted_by_server(exchange), exchange.reset(); }},
      {"confirms without speaking",
       [](auto& client, auto& exchange) { sim::send_packet(client.get(), sim::kAcknowledged), exchange.reset(); }},
      {"confirms, and keeps the socket",
       [](auto& client, auto&) { sim::send_packet(client.get(), sim::kAcknowledged); }},
      {"shuts it down", [](auto&, auto& exchange) { ::shutdown(exchange.get(), SHUT_RDWR); }},
      {"says something else and keeps it", [](auto&, auto& exchange) { sim::send_packet(exchange.get(), "zz"); }},
      {"stops halfway", [](auto&, auto& exchange) { sim::send_packet(exchange.get(), sim::kCredentials); }},
      {"sends a descriptor", [](auto&, auto& exchange) { sim::send_packet(exchange.get(), "x", exchange.get()); }},
      {"leaves", [](auto& client, auto&) { client.reset(); }},
      {"does nothing", [](auto&, auto&) {}},
  };
  for (const auto& [name, way] : ways) {
    SCOPED_TRACE(name);
    open_endpoint(name);
    sim::Fd client = introduced(name);
    sim::Packet packet = next(client);
    ASSERT_EQ(packet.bytes, sim::kDescriptor);
    way(client, packet.descriptor);
    EXPECT_TRUE(let_in(kOther).valid());
    // A client that has left is not admitted; one that stays is, and its connection ends when its time is up.
    ASSERT_TRUE(until([&] {
      const auto counters = relay_->counters(name);
      return counters.completed + counters.let_in >= 1;
    }));
    EXPECT_TRUE(let_in(kOther).valid());
  }
  EXPECT_FALSE(running->ended_within(0ms));
  EXPECT_THAT(ends_, IsEmpty());
  EXPECT_EQ(doubts_, 0);
}

TEST_F(RelayAtTheEndpoint, AnEndpointThatIsClosedDuringAnExchangeLeavesTheServerToOthers) {
  ASSERT_TRUE(let_in(kOther).valid());
  const sim::Fd client = introduced(kOne);
  const sim::Packet packet = next(client);
  ASSERT_EQ(packet.bytes, sim::kDescriptor);
  relay_->close_endpoint(kOne);
  EXPECT_TRUE(let_in(kOther).valid());
}

// Uses up all descriptors of this process except one, until the end of the scope.
class OneDescriptorLeft {
 public:
  OneDescriptorLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{256, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (sim::Fd fd; (fd = sim::Fd(::dup(0))).valid();) held_.push_back(std::move(fd));
    if (!held_.empty()) held_.pop_back();
  }
  ~OneDescriptorLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OneDescriptorLeft(const OneDescriptorLeft&) = delete;
  OneDescriptorLeft& operator=(const OneDescriptorLeft&) = delete;

 private:
  rlimit before_{};
  std::vector<sim::Fd> held_;
};

// Without descriptors of its own for the exchange, the relay would give the client the server's socket.
TEST_F(RelayAtTheEndpoint, AClientWithoutDescriptorsForItsExchangeWaitsForThem) {
  const sim::Fd client = greeted(kOne);
  {
    const OneDescriptorLeft few;  // enough for the connection to the daemon
    ASSERT_TRUE(sim::introduce(client.get(), ConnectionType::kClient));
    turns(200ms);
    EXPECT_FALSE(readable(client.get()));
    EXPECT_THAT(relay_->clients().of(kOne), IsEmpty());
  }
  sim::Packet packet = next(client);
  ASSERT_EQ(packet.bytes, sim::kDescriptor);
  join(packet.descriptor);
  EXPECT_THAT(relay_->clients().of(kOne), ElementsAre(::getpid()));
}

// A daemon and a server of the test, for exchanges that were not measured.
class RelayWithAForeignServer : public RelayWithShortTimes {
 protected:
  void SetUp() override {
    daemon_socket_ = world_.dir() + "/foreign";
    RelayWithShortTimes::SetUp();
    listening_ = sim::listen_at(daemon_socket_, 0666);
  }
  // A client that was handed over; the server's end is kept.
  void hand_over() {
    client_ = introduced(kOne);
    serve_client();
  }
  void serve_client() {
    const sim::Fd daemon = introduced_to_daemon();
    send_server(daemon);
    sim::Packet packet = next(client_);
    ASSERT_EQ(packet.bytes, sim::kDescriptor);
    exchange_ = std::move(packet.descriptor);
  }
  sim::Fd introduced_to_daemon() {
    EXPECT_TRUE(until([&] { return readable(listening_.get()); }));
    sim::Fd daemon(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(sim::send_packet(daemon.get(), sim::kHello));
    EXPECT_EQ(next(daemon).bytes, sim::kCredentials);
    return daemon;
  }
  void send_server(const sim::Fd& daemon) {
    auto [theirs, server] = sim::socket_pair();
    server_ = std::move(server);
    ASSERT_TRUE(sim::send_packet(daemon.get(), sim::kDescriptor, theirs.get()));
    theirs.reset();
  }
  std::uint64_t let_in_count() const { return relay_->counters(kOne).let_in; }
  sim::Fd listening_, client_, server_, exchange_;
};

TEST_F(RelayWithAForeignServer, AnExchangeThatIsNotKnownAdmitsOnTheClientsWordAndPassesOnAfterwards) {
  hand_over();
  ASSERT_TRUE(sim::send_packet(exchange_.get(), "hello"));
  EXPECT_EQ(next(server_).bytes, "hello");
  ASSERT_TRUE(sim::send_packet(server_.get(), "welcome"));
  EXPECT_EQ(next(exchange_).bytes, "welcome");
  EXPECT_EQ(let_in_count(), 0u);
  ASSERT_TRUE(sim::send_packet(client_.get(), sim::kAcknowledged));
  ASSERT_TRUE(until([&] { return let_in_count() == 1; }));
  client_.reset();
  turns(20ms);
  ASSERT_TRUE(sim::send_packet(server_.get(), "later"));
  EXPECT_EQ(next(exchange_).bytes, "later");
  ASSERT_TRUE(sim::send_packet(exchange_.get(), "thanks"));
  EXPECT_EQ(next(server_).bytes, "thanks");
  exchange_.reset();
  EXPECT_EQ(next(server_).bytes, "end");
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(RelayWithAForeignServer, AServerThatIsNotReachedThroughPacketsIsNotTalkedTo) {
  client_ = introduced(kOne);
  const sim::Fd no_socket(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(sim::send_packet(introduced_to_daemon().get(), sim::kDescriptor, no_socket.get()));
  EXPECT_EQ(next(client_).bytes, "end");
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kOtherDaemon));
}

// Otherwise the first client after a start of the relay could keep the server from all others.
TEST_F(RelayWithAForeignServer, AServerThatSpeaksAsMeasuredGetsWhatItNeedsAlsoTheFirstTime) {
  hand_over();
  ASSERT_TRUE(sim::send_packet(exchange_.get(), "x"));
  EXPECT_EQ(next(server_).bytes, "x");
  ASSERT_TRUE(sim::greet_client(server_.get(), listening_.get()));
  for (int i = 0; i <= sim::kServerDescriptors; ++i) next(exchange_);
  ASSERT_TRUE(sim::send_packet(client_.get(), sim::kAcknowledged));
  for (const auto said : {kExchangeOfClient[1], kExchangeOfClient[2]}) EXPECT_EQ(next(server_).bytes, said);
  EXPECT_EQ(let_in_count(), 0u);
  ASSERT_TRUE(sim::send_packet(server_.get(), kExchangeAnswer));
  EXPECT_TRUE(until([&] { return let_in_count() == 1; }));
}

// The client has exited, and the kernel has given its pid to a later process. A third process holds the client's
// sockets and sends a message. The relay must not send it to the server under that pid.
TEST_F(RelayWithAForeignServer, AClientThatHasExitedIsNotSpokenForInTheNameOfALaterProcess) {
  client_ = sim::Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const pid_t connector = ::fork();
  if (connector == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (os::connect_at(client_.get(), path(kOne) + "/control") != 0 ||
        !sim::introduce(client_.get(), ConnectionType::kClient))
      ::_exit(1);
    while (true) ::pause();
  }
  ASSERT_TRUE(until([&] { return readable(listening_.get()); }));
  ASSERT_EQ(next(client_).bytes, sim::kHello);
  serve_client();
  ASSERT_TRUE(sim::accept_identities(server_.get()));
  ::kill(connector, SIGKILL);
  ::waitpid(connector, nullptr, 0);
  const Successor successor(connector);
  if (!successor) GTEST_SKIP() << "needs root to choose a process's number";
  ASSERT_TRUE(sim::send_packet(exchange_.get(), sim::kCredentials));
  const sim::Packet packet = next(server_);
  ASSERT_TRUE(packet.sender);
  EXPECT_THAT(packet.sender->pid, AllOf(Ne(::getpid()), Ne(connector)));
  EXPECT_NE(::kill(packet.sender->pid, 0), 0) << "no process has that pid";
}

TEST_F(RelayWithAForeignServer, AClientThatTheServerRefusesGetsItsReasonAtOnceAndIsNotBlamed) {
  times_.alone = times_.greeting = 10min;  // longer than the test waits
  open_relay();
  hand_over();
  ASSERT_TRUE(sim::send_packet(server_.get(), "no"));
  server_.reset();
  EXPECT_EQ(next(exchange_).bytes, "no");
  EXPECT_EQ(next(exchange_).bytes, "end");
  client_.reset();
  turns(20ms);
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(RelayWithAForeignServer, AClientThatBreaksOffAnExchangeThatIsNotKnownMakesTheServerDoubted) {
  hand_over();
  ASSERT_TRUE(sim::send_packet(server_.get(), "welcome"));
  EXPECT_EQ(next(exchange_).bytes, "welcome");
  exchange_.reset();
  ASSERT_TRUE(until([&] { return doubts_ != 0; }));
}

TEST_F(RelayWithAForeignServer, AClientThatLeavesBeforeItsServerSpeaksIsSpokenForOnceTheServerWaitsForIt) {
  hand_over();
  exchange_.reset();
  ASSERT_TRUE(sim::send_packet(client_.get(), sim::kAcknowledged));
  turns(20ms);
  EXPECT_THAT(ends_, IsEmpty());
  ASSERT_TRUE(sim::send_packet(server_.get(), sim::kDescriptor));
  for (const auto said : kExchangeOfClient) EXPECT_EQ(next(server_).bytes, said);
}

TEST_F(RelayWithAForeignServer, AClientThatLeavesASilentServerIsNotBlamed) {
  hand_over();
  client_.reset();
  exchange_.reset();
  for (const auto said : kExchangeOfClient) EXPECT_EQ(next(server_).bytes, said) << "after the time that it has";
  EXPECT_THAT(ends_, IsEmpty());
}

// The server waits for the client from the moment when the daemon sends the server's socket.
TEST_F(RelayWithAForeignServer, AClientThatLeavesWhileTheDaemonLooksForAServerIsSpokenFor) {
  client_ = introduced(kOne);
  const sim::Fd daemon = introduced_to_daemon();
  client_.reset();
  turns(20ms);
  send_server(daemon);
  ASSERT_TRUE(sim::greet_client(server_.get(), listening_.get()));
  for (const auto said : kExchangeOfClient) EXPECT_EQ(next(server_).bytes, said);
}

TEST_F(RelayWithAForeignServer, AnEndpointThatIsClosedMeanwhileLeavesTheServerToOthers) {
  client_ = introduced(kOne);
  const sim::Fd daemon = introduced_to_daemon();
  relay_->close_endpoint(kOne);
  EXPECT_EQ(next(client_).bytes, "end");
  open_endpoint(kOne);
  send_server(daemon);
  ASSERT_TRUE(sim::greet_client(server_.get(), listening_.get()));
  for (const auto said : kExchangeOfClient) EXPECT_EQ(next(server_).bytes, said);
  client_ = introduced(kOne);
  EXPECT_TRUE(introduced_to_daemon().valid());
}

TEST_F(RelayWithAForeignServer, AProgramThatEndsMeanwhileLeavesTheServerToOthers) {
  client_ = introduced(kOne);
  const sim::Fd daemon = introduced_to_daemon();
  send_server(daemon);
  relay_.reset();
  for (const auto said : kExchangeOfClient) EXPECT_EQ(next(server_).bytes, said);
}

TEST_F(RelayWithAForeignServer, AClientWhoseServerIsSilentIsNotBlamed) {
  hand_over();
  EXPECT_EQ(next(client_).bytes, "end");
  EXPECT_THAT(ends_, ElementsAre(RelayEnd::kServerLate));
  EXPECT_EQ(next(server_).bytes, sim::kCredentials) << "in the client's place, for when it gets to it";
}

}  // namespace
}  // namespace tranche::mps
