// How clients connect to the daemon: every row of docs/internals/evidence/mps-handshake.md that the stand-in
// implements.
#include "standins/mps/handshake.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "standins/mps/limits.h"
#include "standins/mps/mps_world.h"

namespace tranche::sim {
namespace handshake_test {

using testing::HasSubstr;

constexpr int kAtOnceMs = 60'000;  // a deadline, not an expectation
constexpr int kNotMeanwhileMs = 100;

class MpsHandshake : public testing::Test {
 protected:
  MpsHandshake() { world.start_daemon({"-M"}); }
  Fd connected(const std::string& name = "control") const { return connect_to(world.pipe() + "/" + name); }
  Fd introduced(ConnectionType type, const Identity& as = own_identity()) const {
    Fd fd = connected();
    return await_hello(fd.get(), kAtOnceMs) && introduce(fd.get(), type, as) ? std::move(fd) : Fd();
  }
  // Message 4 of a client that has introduced itself; invalid if another message arrived.
  static Fd server_of(const Fd& client) {
    Packet packet;
    if (receive_packet(client.get(), &packet) != Arrived::kPacket || packet.bytes != kDescriptor) return {};
    return std::move(packet.descriptor);
  }
  static bool ends(const Fd& fd) {
    Packet packet;
    return receive_packet(fd.get(), &packet) == Arrived::kEnd;
  }
  std::unique_ptr<TestProcess> asking() const {
    return std::make_unique<TestProcess>(
        Spawn{.argv = {"nvidia-cuda-mps-control", "get_server_list"}, .env = world.env()});
  }
  MpsWorld world;
};

TEST_F(MpsHandshake, TheDaemonGreetsAtOnceOnBothSockets) {
  for (const char* name : {"control", "control_privileged"}) {
    const Fd fd = connected(name);
    EXPECT_TRUE(await_hello(fd.get(), kAtOnceMs)) << name;
  }
}

TEST_F(MpsHandshake, ACudaProcessLooksForAGreetingFirstAndHangsUp) {
  ASSERT_TRUE(world.client().mps());
  EXPECT_NE(world.daemon().line_with("User did not send valid credentials"), "");
  EXPECT_NE(world.daemon().line_with("NEW CLIENT"), "");
}

// Promise: mps/relay: A handshake gives the client a descriptor and reports when its server has it.
TEST_F(MpsHandshake, AClientGetsADescriptorAndSaysWhenItsServerHasIt) {
  const Fd client = introduced(ConnectionType::kClient);
  const Fd exchange = server_of(client);
  ASSERT_TRUE(exchange.valid());
  const Fd server = join_server(exchange.get()).channel;
  Message ready;
  ASSERT_TRUE(send_message(server.get(), {"init", {}}));
  ASSERT_EQ(receive_message(server.get(), &ready), Received::kMessage);
  EXPECT_EQ(ready.verb, "ready");
  ASSERT_TRUE(send_packet(client.get(), kAcknowledged));
  EXPECT_TRUE(ends(client));
  EXPECT_THAT(world.ask("get_client_list " + std::to_string(world.server())), HasSubstr(std::to_string(::getpid())));
}

// docs/internals/evidence/shares.md
TEST_F(MpsHandshake, AServersLimitsBecomeAClientsWhileItConnectsForAllItsContexts) {
  const auto limit = [&](const std::string& memory, const std::string& percent) {
    const std::string server = std::to_string(world.server());
    world.ask("set_device_pinned_mem_limit " + server + " " + world.uuid() + " " + memory);
    world.ask("set_active_thread_percentage " + server + " " + percent);
  };
  const auto first = world.client();  // starts the server
  limit("8192M", "10");
  const Fd client = introduced(ConnectionType::kClient);
  const Fd exchange = server_of(client);
  ASSERT_TRUE(exchange.valid());
  const Fd server = join_server(exchange.get()).channel;
  Message answer;
  ASSERT_TRUE(send_message(server.get(), {"init", {}}));
  ASSERT_EQ(receive_message(server.get(), &answer), Received::kMessage);
  ASSERT_TRUE(send_packet(client.get(), kAcknowledged));
  limit("24576M", "50");
  for (std::uint32_t context = 1; context <= 2; ++context) {
    const Fd second = introduced(ConnectionType::kClient);
    const Fd exchange_of_context = server_of(second);
    const Fd channel = join_server(exchange_of_context.get(), context).channel;
    ASSERT_TRUE(send_packet(second.get(), kAcknowledged));
    ASSERT_TRUE(send_message(server.get(), {"context", {{"gpu", world.uuid()}, {"id", std::to_string(context)}}}));
    ASSERT_EQ(receive_message(server.get(), &answer), Received::kMessage);
    EXPECT_EQ(answer.number("sms"), 12);
    EXPECT_EQ(answer.number("limit"), std::int64_t{8192} << 20);
  }
  EXPECT_EQ(world.client().number("sms"), 66u) << "for clients to come";
}

// docs/internals/evidence/mps-handshake.md: measured with copies of the pipes of 40 contexts that had ended.
TEST_F(MpsHandshake, AConnectionHasItsPlaceForAsLongAsItsChannelsAreOpen) {
  const auto connected = [&](std::uint32_t context) {
    const Fd client = introduced(ConnectionType::kClient);
    const Fd exchange = server_of(client);
    Fd channel = join_server(exchange.get(), context).channel;
    EXPECT_TRUE(send_packet(client.get(), kAcknowledged));
    return channel;
  };
  const Fd own = connected(0);
  Message answer;
  const auto ask = [&](const Message& message) {
    return send_message(own.get(), message) && receive_message(own.get(), &answer) == Received::kMessage;
  };
  ASSERT_TRUE(ask({"init", {}}));
  std::vector<Fd> channels;
  for (std::uint32_t context = 1; context <= kClientsPerGpu + 1; ++context) {
    channels.push_back(connected(context));
    ASSERT_TRUE(ask({"context", {{"gpu", world.uuid()}, {"id", std::to_string(context)}}}));
    EXPECT_EQ(answer.verb, context <= kClientsPerGpu ? "context" : "refused") << context;
    ASSERT_TRUE(send_message(own.get(), {"release", {{"gpu", world.uuid()}, {"id", std::to_string(context)}}}));
  }
  EXPECT_EQ(answer.number("code"), 808);
  channels.clear();
  channels.push_back(connected(99));
  ASSERT_TRUE(ask({"context", {{"gpu", world.uuid()}, {"id", "99"}}}));
  EXPECT_EQ(answer.verb, "context");
}

TEST_F(MpsHandshake, TheIdentityIsThatOfTheCredentialsAndNotOfTheConnection) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to speak for another process";
  const Fd client = introduced(ConnectionType::kClient, {world.daemon().pid(), 1001, 1001});
  EXPECT_NE(world.daemon().line_with("NEW CLIENT " + std::to_string(world.daemon().pid()) + " from user 1001"), "");
}

TEST_F(MpsHandshake, ACommandSessionThroughControlMayTerminateANeighboursClient) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: the daemon accepts credentials only from root";
  auto neighbour = world.client();
  world.make_endpoint();
  EXPECT_THAT(world
                  .command("terminate_client " + std::to_string(world.server()) + " " +
                               std::to_string(neighbour.process->pid()),
                           world.endpoint())
                  .text,
              testing::EndsWith("0\n"));
  EXPECT_THAT(neighbour.process->line_with("\"error\""), HasSubstr("CUDA_ERROR_MPS_CLIENT_TERMINATED"));
}

TEST_F(MpsHandshake, ASecondCommandSessionIsHungUpOnAtOnce) {
  const Fd first = introduced(ConnectionType::kCommands);
  EXPECT_TRUE(ends(introduced(ConnectionType::kCommands)));
  const Reply said = world.command("get_server_list");
  EXPECT_EQ(said.text, "Cannot send command to MPS control daemon process\n");
  world.make_endpoint();
  EXPECT_EQ(world.command("get_server_list", world.endpoint()).text, "") << "an empty answer through a hard link";
}

TEST_F(MpsHandshake, AMuteConnectionHoldsEverybodyUp) {
  Fd mute = connected();
  ASSERT_TRUE(await_hello(mute.get(), kAtOnceMs));
  const auto question = asking();
  Fd newcomer = connected();
  EXPECT_FALSE(await_hello(newcomer.get(), kNotMeanwhileMs));
  EXPECT_FALSE(question->ended_within(std::chrono::milliseconds(kNotMeanwhileMs)));
  mute.reset();
  EXPECT_TRUE(await_hello(newcomer.get(), kAtOnceMs));
  newcomer.reset();
  EXPECT_EQ(question->wait(), 0);
}

TEST_F(MpsHandshake, AClientThatStallsBeforeItsAcknowledgementHoldsEverybodyUp) {
  Fd stalled = introduced(ConnectionType::kClient);
  ASSERT_TRUE(server_of(stalled).valid());
  const auto question = asking();
  Fd newcomer = connected();
  EXPECT_FALSE(await_hello(newcomer.get(), kNotMeanwhileMs));
  EXPECT_FALSE(question->ended_within(std::chrono::milliseconds(0)));
  stalled.reset();
  EXPECT_TRUE(await_hello(newcomer.get(), kAtOnceMs));
  newcomer.reset();
  EXPECT_EQ(question->wait(), 0);
}

// Promise: mps/relay: A client that breaks off with its server blocks that server's later clients.
TEST_F(MpsHandshake, AServerThatAClientBreaksOffWithIsStuckForAllLaterOnesAndRunningOnesGoOn) {
  auto running = world.client();
  const Fd client = introduced(ConnectionType::kClient);
  {
    const Fd server = server_of(client);
    ASSERT_TRUE(send_packet(client.get(), kAcknowledged));
  }
  const auto next = world.start_client({"--hold"});
  EXPECT_NE(world.daemon().line_with("NEW CLIENT " + std::to_string(next->pid())), "");
  EXPECT_THAT(running.obey("alloc 10M", "allocate"), HasSubstr("CUDA_SUCCESS"));
  EXPECT_FALSE(next->says("attached"));
  next->signal(SIGKILL);  // until then the daemon waits for its message too
  next->wait();
  EXPECT_NE(world.server(), 0) << "commands are answered";
}

// Who has said anything has sent credentials, which the kernel adds; the server waits for the rest or the end.
TEST_F(MpsHandshake, AClientThatSaidSomethingAndBreaksOffHoldsNobodyUp) {
  auto running = world.client();
  const Fd client = introduced(ConnectionType::kClient);
  Fd exchange = server_of(client);
  ASSERT_TRUE(exchange.valid());
  ASSERT_TRUE(send_packet(exchange.get(), kFirstContext));
  ASSERT_TRUE(send_packet(client.get(), kAcknowledged));
  const auto next = world.start_client({"--hold"});
  EXPECT_NE(world.daemon().line_with("NEW CLIENT " + std::to_string(next->pid())), "");
  EXPECT_THAT(running.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
  EXPECT_FALSE(next->says("attached")) << "the server waits for the rest";
  exchange.reset();
  EXPECT_THAT(next->line_with("attached"), HasSubstr("\"mps\":true"));
}

// What it sent is lost with it: the kernel reports the unread messages as a reset.
TEST_F(MpsHandshake, AClientThatClosesWithTheServersMessagesUnreadMakesItStuckWhateverItSaid) {
  auto running = world.client();
  const pid_t server = world.server();
  const Fd client = introduced(ConnectionType::kClient);
  {
    const Fd exchange = server_of(client);
    pollfd greeted{exchange.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&greeted, 1, kAtOnceMs), 1);
    ::kill(server, SIGSTOP);
    ASSERT_TRUE(speak_to_server(exchange.get()));
    ASSERT_TRUE(send_packet(client.get(), kAcknowledged));
  }
  ::kill(server, SIGCONT);
  const auto next = world.start_client({"--hold"});
  EXPECT_NE(world.daemon().line_with("NEW CLIENT " + std::to_string(next->pid())), "");
  EXPECT_THAT(running.obey("alloc 10M", "allocate"), HasSubstr("CUDA_SUCCESS"));
  EXPECT_FALSE(next->says("attached"));
}

TEST_F(MpsHandshake, ATypeThatDoesNotExistIsHungUpOnAndTheDaemonGoesOn) {
  EXPECT_TRUE(ends(introduced(static_cast<ConnectionType>(9))));
  EXPECT_EQ(world.command("get_server_list").status, 0);
}

TEST_F(MpsHandshake, NothingComesFromAStoppedDaemonAndAllOfItAfterwards) {
  world.daemon().signal(SIGSTOP);
  const Fd newcomer = connected();
  EXPECT_FALSE(await_hello(newcomer.get(), kNotMeanwhileMs));
  world.daemon().signal(SIGCONT);
  EXPECT_TRUE(await_hello(newcomer.get(), kAtOnceMs));
}

}  // namespace handshake_test
}  // namespace tranche::sim
