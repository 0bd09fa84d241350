// The limits of a client: facts, sections 1, 3 and 4, row by row, with real processes and sockets.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "other_user.h"
#include "standins/mps/limits.h"
#include "standins/mps/mps_world.h"
#include "standins/mps/wire.h"

namespace tranche::sim {
namespace clients_test {

using testing::HasSubstr;

constexpr const char* kMemory = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
constexpr const char* kThreads = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

class MpsClients : public testing::Test {
 protected:
  MpsClients() { world.start_daemon(); }
  void limit(const std::string& memory, const std::string& percent) {
    world.ask("set_default_device_pinned_mem_limit " + world.uuid() + " " + memory);
    world.ask("set_default_active_thread_percentage " + percent);
  }
  MpsWorld world;
};

TEST_F(MpsClients, FreeMemoryIsTheLimitLessTheContextAndTotalStays) {
  limit("4096M", "10");
  auto client = world.client();
  EXPECT_EQ(client.number("free") >> 20, 4024u);
  EXPECT_EQ(client.number("total") >> 20, 143155u);
  EXPECT_THAT(client.obey("alloc 5000M", "allocate"), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_THAT(client.obey("alloc 3000M", "allocate"), HasSubstr("CUDA_SUCCESS"));
}

TEST_F(MpsClients, AtAHundredPercentTheContextCosts514Mib) {
  limit("4096M", "100");
  EXPECT_EQ(world.client().number("free") >> 20, 3582u);
}

TEST_F(MpsClients, ABadVariableLiftsTheLimitAndMoreThanTheLimitIsAllocated) {
  limit("4096M", "10");
  for (const char* value : {"zz", "0=zz", "0=", "=", " ", "0=0", "1=1G", "9=1G", "GPU-bad=1G", "0=1G,0=zz"}) {
    auto client = world.client({}, {{kMemory, value}});
    EXPECT_THAT(client.first, HasSubstr("\"limit\":null")) << value;
    EXPECT_THAT(client.obey("alloc 5000M", "allocate"), HasSubstr("CUDA_SUCCESS")) << value;
  }
  for (const char* value : {"", "0=-1G"}) {
    EXPECT_EQ(world.client({}, {{kMemory, value}}).number("limit"), 4096ull << 20) << value;
  }
}

TEST_F(MpsClients, TheSmallerOfClientAndDaemonHolds) {
  limit("4096M", "50");
  const auto above = world.client({}, {{kMemory, "0=100G"}, {kThreads, "99"}});
  EXPECT_EQ(above.number("limit"), 4096ull << 20);
  EXPECT_EQ(above.number("sms"), 66u);
  const auto below = world.client({}, {{kMemory, world.uuid() + "=1G"}, {kThreads, "10"}});
  EXPECT_EQ(below.number("limit"), 1ull << 30);
  EXPECT_EQ(below.number("sms"), 12u);
  for (const char* ignored : {"zz", "0", "-5", "101", "1000", ""}) {
    EXPECT_EQ(world.client({}, {{kThreads, ignored}}).number("sms"), 66u) << ignored;
  }
}

TEST_F(MpsClients, PerContextPartitioningShowsAllSmsAndFreesNone) {
  limit("4096M", "10");
  const auto client = world.client({}, {{"CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING", "1"}});
  EXPECT_EQ(client.number("sms"), 132u);
  EXPECT_EQ(client.number("runs_on"), 12u);
}

TEST_F(MpsClients, TheLimitIsPerProcess) {
  limit("4096M", "10");
  auto first = world.client(), second = world.client();
  EXPECT_THAT(first.obey("alloc 3000M", "allocate"), HasSubstr("CUDA_SUCCESS"));
  EXPECT_THAT(second.obey("alloc 3000M", "allocate"), HasSubstr("CUDA_SUCCESS"));
  std::uint64_t clients = 0;
  for (const auto& row : world.node()->processes(0)) {
    if (row.kind == ProcessKind::kMpsClient) clients += row.bytes;
  }
  EXPECT_EQ(clients >> 20, 2 * 3000u + 143u);
}

TEST_F(MpsClients, NvmlSeesServerAndClientsWithWhatTheLimitCharges) {
  auto client = world.client({"--allocate", "1G"});
  client.process->line_with("\"allocate\"");
  const auto rows = world.node()->processes(0);
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) {
    const bool server = row.kind == ProcessKind::kMpsServer;
    EXPECT_EQ(row.pid, server ? world.server() : client.process->pid());
    EXPECT_EQ(row.bytes, server ? 66ull << 20 : (1ull << 30) + context_bytes(132));
  }
}

TEST(MpsClientsOfTwoGpus, OrdinalsCountTheClientsVisibleDevicesAndUuidsAlwaysFit) {
  MpsWorld world("gpus: {profile: H200, count: 2}\n");
  world.start_daemon();
  for (int gpu : {0, 1}) world.ask("set_default_device_pinned_mem_limit " + world.uuid(gpu) + " 4096M");
  const auto limit = [&](const std::string& visible, const std::string& value) {
    return world.client({}, {{"CUDA_VISIBLE_DEVICES", visible}, {kMemory, value}}).number("limit") >> 20;
  };
  EXPECT_EQ(limit("1", "0=2G"), 2048u);
  EXPECT_EQ(limit("1", "1=2G"), 0u) << "lifted";
  EXPECT_EQ(limit("1", "0=2G,1=3G"), 0u) << "lifted";
  EXPECT_EQ(limit("1,0", world.uuid(1) + "=2G"), 2048u);
  EXPECT_EQ(limit(world.uuid(1), world.uuid(1) + "=2G"), 2048u);
  const auto hidden = world.client({}, {{"NVIDIA_VISIBLE_DEVICES", world.uuid(1)}, {kMemory, world.uuid(1) + "=2G"}});
  EXPECT_EQ(hidden.number("limit") >> 20, 2048u);
  EXPECT_THAT(world.client({}, {{"NVIDIA_VISIBLE_DEVICES", "void"}}).first, HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

// Measured on two H200: docs/internals/evidence/shares.md, "A GPU that is not the pool's first".
TEST(MpsClientsOfTwoGpus, TheServersLimitIsThatOfTheNumberThatTheDeviceHasForTheClient) {
  MpsWorld world("gpus: {profile: H200, count: 2}\n");
  world.start_daemon();
  world.ask("set_default_device_pinned_mem_limit " + world.uuid(0) + " 4096M");
  world.ask("set_default_device_pinned_mem_limit " + world.uuid(1) + " 6144M");
  const auto limit = [&](const std::string& variable, const std::string& visible) {
    return world.client({}, {{variable, visible}}).number("limit") >> 20;
  };
  EXPECT_EQ(limit("CUDA_VISIBLE_DEVICES", "0"), 4096u);
  EXPECT_EQ(limit("CUDA_VISIBLE_DEVICES", world.uuid(1)), 4096u);
  EXPECT_EQ(limit("CUDA_VISIBLE_DEVICES", "1,0"), 4096u);
  EXPECT_EQ(limit("NVIDIA_VISIBLE_DEVICES", world.uuid(1)), 4096u);
}

TEST_F(MpsClients, FortyEightRunAndTheNextIsRefused) {
  std::vector<MpsWorld::Client> clients;
  world.ask("set_default_active_thread_percentage 2");
  for (int i = 0; i < kClientsPerGpu; ++i) {
    clients.push_back(world.client());
    ASSERT_TRUE(clients.back().attached()) << i;
  }
  auto next = world.client();
  EXPECT_THAT(next.first, HasSubstr("CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"));
  EXPECT_EQ(next.process->wait(), 88);
  clients.front().process->say("exit");
  EXPECT_EQ(clients.front().process->wait(), 0);
  EXPECT_TRUE(world.client().attached());
}

TEST(MpsFailOpen, WithoutADaemonAClientRunsFreeInDefaultMode) {
  MpsWorld world;
  const auto expect_free = [&](const char* why) {
    const auto client = world.client({}, {{kMemory, "0=1G"}, {kThreads, "10"}, {"TRANCHE_SIM_WELCOME_MS", "500"}});
    EXPECT_TRUE(client.attached() && !client.mps()) << why;
    EXPECT_EQ(client.number("sms"), 132u) << why;
    EXPECT_THAT(client.first, HasSubstr("\"limit\":null")) << why;
  };
  expect_free("no socket");
  world.start_daemon();
  world.daemon().signal(SIGKILL);
  world.daemon().wait();
  expect_free("a stale socket");
  std::filesystem::remove(world.pipe() + "/control");
  const Fd foreign_process = listen_at(world.pipe() + "/control", 0666);
  ASSERT_TRUE(foreign_process.valid());
  expect_free("somebody who listens and never answers");
}

TEST(MpsFailOpen, APipeDirectoryPointedElsewhereRunsFreeToo) {
  MpsWorld world;
  world.start_daemon();
  world.ask("set_default_active_thread_percentage 10");
  EXPECT_TRUE(world.client().mps());
  const auto escaped = world.client({}, {{"CUDA_MPS_PIPE_DIRECTORY", world.dir() + "/elsewhere"}});
  EXPECT_TRUE(escaped.attached() && !escaped.mps());
  EXPECT_EQ(escaped.number("sms"), 132u);
}

TEST(MpsFailOpen, ExclusiveProcessKeepsOutWhoeverIsNotAClient) {
  MpsWorld world;
  world.node()->set_compute_mode(0, 3);
  world.start_daemon();
  const auto first = world.client(), second = world.client();
  EXPECT_TRUE(first.mps() && second.mps()) << "clients share the server's place";
  auto escaped = world.client({}, {{"CUDA_MPS_PIPE_DIRECTORY", world.dir() + "/elsewhere"}});
  EXPECT_THAT(escaped.process->wait(), 46);
  EXPECT_THAT(escaped.first, HasSubstr("CUDA_ERROR_DEVICE_UNAVAILABLE"));
}

TEST(MpsFailOpen, ExclusiveProcessGivesTheGpuToTheFirstComerAndThenNoServerStarts) {
  MpsWorld world;
  world.node()->set_compute_mode(0, 3);
  const auto alone = world.client();
  EXPECT_TRUE(alone.attached() && !alone.mps());
  world.start_daemon();
  EXPECT_THAT(world.client().first, HasSubstr("CUDA_ERROR_MPS_CONNECTION_FAILED"));
}

TEST(MpsEndpoint, AHardLinkServesClientsAndIsRelinkedAfterARestart) {
  MpsWorld world;
  world.start_daemon();
  world.make_endpoint();
  const std::map<std::string, std::string> through{{"CUDA_MPS_PIPE_DIRECTORY", world.endpoint()}};
  EXPECT_TRUE(world.client({}, through).mps());
  world.daemon().signal(SIGKILL);
  world.daemon().wait();
  EXPECT_FALSE(world.client({}, through).mps()) << "stale";
  world.start_daemon();
  EXPECT_FALSE(world.client({}, through).mps()) << "still the old socket";
  world.make_endpoint();
  EXPECT_TRUE(world.client({}, through).mps());
}

class MpsUsers : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = why_no_other_user(); !why.empty()) GTEST_SKIP() << why;
    for (const auto& entry : std::filesystem::directory_iterator(world.dir())) {
      ::chmod(entry.path().c_str(), entry.is_directory() ? 0777 : 0666);
    }
    ::chmod(world.dir().c_str(), 0777);
  }
  static constexpr uid_t kOther = 1001;
  MpsWorld world;
};

TEST_F(MpsUsers, WithoutMAnotherUserWaitsUntilTheFirstHasLeft) {
  world.start_daemon();
  const auto root = world.client();
  const auto other = world.start_client({"--hold"}, {}, kOther);
  EXPECT_NE(world.daemon().line_with("from user 1001: Server is not ready, push client to pending list"), "");
  EXPECT_NE(world.daemon().line_with("Server will not shutdown."), "");
  EXPECT_TRUE(world.client().attached()) << "the server's own user is still served";
  const pid_t first_server = world.server();
  root.process->say("exit");
  EXPECT_EQ(root.process->wait(), 0);
  EXPECT_THAT(other->line_with("attached"), HasSubstr("\"mps\":true"));
  EXPECT_NE(world.server(), first_server);
}

TEST_F(MpsUsers, WithMAnotherUserRunsAtOnceAndLimitsHold) {
  world.start_daemon({"-M"});
  world.ask("set_default_active_thread_percentage 10");
  const auto root = world.client();
  const auto other = world.client({}, {}, kOther);
  EXPECT_TRUE(root.mps() && other.mps());
  EXPECT_EQ(other.number("sms"), 12u);
}

TEST_F(MpsUsers, AClientThatDiesWhileItWaitsWedgesTheDaemon) {
  world.start_daemon();
  const auto root = world.client();
  const auto other = world.start_client({"--hold"}, {}, kOther);
  EXPECT_NE(world.daemon().line_with("from user 1001: Server is not ready, push client to pending list"), "");
  other->signal(SIGKILL);
  other->wait();
  root.process->say("exit");
  EXPECT_NE(world.daemon().line_with("NEW SERVER"), "");
  const pid_t server = world.server();
  TestProcess status(
      {.argv = {"nvidia-cuda-mps-control", "get_server_status " + std::to_string(server)}, .env = world.env()});
  EXPECT_NE(world.daemon().line_with("Cmd:get_server_status"), "");
  EXPECT_FALSE(status.ended_within(std::chrono::milliseconds(100)));
}

}  // namespace clients_test
}  // namespace tranche::sim
