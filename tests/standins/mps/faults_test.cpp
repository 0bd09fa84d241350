// Deaths and faults: facts, section 3, row by row.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "standins/mps/mps_world.h"

namespace tranche::sim {
namespace faults_test {

using testing::HasSubstr;
using testing::Not;

class MpsFaults : public testing::Test {
 protected:
  MpsFaults() { world.start_daemon({"-M"}); }

  // A victim with this work in flight dies by `signal`: whether a peer with short kernels dies with it.
  bool peer_dies(const std::string& kernel_ms, const std::string& queue, int signal, bool tensor = false) {
    auto peer = world.client({"--kernel-ms", "1"});
    std::vector<std::string> options{"--kernel-ms", kernel_ms, "--queue", queue};
    if (tensor) options.emplace_back("--tensor");
    const auto victim = world.client(options);
    EXPECT_NE(victim.process->line_with("\"launch\""), "");
    victim.process->signal(signal);
    EXPECT_EQ(victim.process->wait(), 128 + signal);
    const bool hurt = log_of_death(victim).find("encountered a fatal GPU error") != std::string::npos;
    if (hurt) {
      EXPECT_EQ(peer.process->wait(), 70);
      EXPECT_TRUE(recovers()) << "a newcomer is refused (807) until the server has seen the poisoned leave";
    } else {
      EXPECT_THAT(peer.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
      peer.process->say("exit");
      EXPECT_EQ(peer.process->wait(), 0);
    }
    return hurt;
  }

  // The server's log from now until the end of a client that has died.
  std::string log_of_death(const MpsWorld::Client& dead) {
    return world.daemon().lines_until("Client process " + std::to_string(dead.process->pid()) + " disconnected");
  }

  // Each query is a process of its own, so this is not a busy loop.
  bool recovers() {
    for (int asked = 0; asked < 500; ++asked) {
      if (status() == "ACTIVE\n") return true;
    }
    return false;
  }

  std::string status() { return world.ask("get_server_status " + std::to_string(world.server())); }
  MpsWorld world;
};

TEST_F(MpsFaults, ShortKernelsInFlightHurtNobody) {
  EXPECT_FALSE(peer_dies("0.2", "2000", SIGKILL));
  EXPECT_FALSE(peer_dies("1", "1", SIGKILL));
  EXPECT_FALSE(peer_dies("1", "200", SIGKILL));
  EXPECT_FALSE(peer_dies("5", "1", SIGKILL));
}

TEST_F(MpsFaults, LongKernelsInFlightKillThePeersSixTimesOfSix) {
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(peer_dies("5", "400", SIGKILL));
    EXPECT_TRUE(peer_dies("200", "20", SIGKILL));
  }
  EXPECT_EQ(status(), "ACTIVE\n") << "once the poisoned have left";
  EXPECT_TRUE(world.client().mps());
}

TEST_F(MpsFaults, TensorKernelsInFlightKillThePeersTooAndShortOnesDoNot) {
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(peer_dies("6", "400", SIGKILL, true));
  EXPECT_TRUE(peer_dies("200", "20", SIGTERM, true));
  EXPECT_FALSE(peer_dies("3", "40", SIGKILL, true));
}

TEST_F(MpsFaults, EveryWayOfDyingIsTheSame) {
  for (const int signal : {SIGTERM, SIGINT, SIGABRT, SIGKILL}) {
    EXPECT_TRUE(peer_dies("200", "20", signal)) << signal;
  }
}

TEST_F(MpsFaults, AnOrderlyExitWithWorkInFlightIsTheSame) {
  const auto peer = world.client();
  const auto victim = world.client({"--kernel-ms", "200", "--queue", "20"});
  EXPECT_NE(victim.process->line_with("\"launch\""), "");
  victim.process->say("exit");
  EXPECT_EQ(victim.process->wait(), 0);
  EXPECT_EQ(peer.process->wait(), 70);
}

// docs/internals/evidence/deaths.md: another process holds the dead client's descriptors of the nvidia-uvm device.
class MpsHeldDeaths : public MpsFaults {
 protected:
  static constexpr unsigned kTerminals = 136;  // what stands for that device

  static Fd held_by(const MpsWorld::Client& client) {
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, client.process->pid(), 0)));
    const std::string path = "/proc/" + std::to_string(client.process->pid()) + "/fd/";
    for (int number = 0; number < 64; ++number) {
      struct stat seen{};
      if (::stat((path + std::to_string(number)).c_str(), &seen) != 0 || major(seen.st_rdev) != kTerminals) continue;
      return Fd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), number, 0)));
    }
    return {};
  }

  struct Victim {
    MpsWorld::Client client;
    Fd held;
  };
  Victim killed_with(const std::string& kernel_ms, const std::string& queue) {
    Victim victim{world.client({"--kernel-ms", kernel_ms, "--queue", queue, "--tensor"}), {}};
    EXPECT_NE(victim.client.process->line_with("\"launch\""), "");
    victim.held = held_by(victim.client);
    EXPECT_TRUE(victim.held.valid());
    victim.client.process->signal(SIGKILL);
    EXPECT_EQ(victim.client.process->wait(), 128 + SIGKILL);
    EXPECT_THAT(log_of_death(victim.client), Not(HasSubstr("encountered a fatal GPU error")));
    return victim;
  }
  bool has_memory(const Victim& victim) {
    return std::ranges::any_of(world.node()->processes(0),
                               [&](const auto& row) { return row.pid == victim.client.process->pid(); });
  }
  bool loses_memory(const Victim& victim) {
    for (int asked = 0; asked < 500; ++asked) {
      if (!has_memory(victim)) return true;
      status();
    }
    return false;
  }
};

TEST_F(MpsHeldDeaths, HurtNobodyAndKeepTheMemoryUntilTheClose) {
  auto peer = world.client();
  auto victim = killed_with("200", "3");
  peer.obey("launch 1 700", "launch");
  EXPECT_THAT(peer.obey("sync", "sync"), HasSubstr("CUDA_SUCCESS"));
  EXPECT_TRUE(has_memory(victim));
  victim.held = Fd();
  EXPECT_TRUE(loses_memory(victim));
  EXPECT_THAT(peer.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
}

TEST_F(MpsHeldDeaths, KillThePeersIfALongKernelStillRunsAtTheClose) {
  const auto peer = world.client();
  auto victim = killed_with("200", "300");
  victim.held = Fd();
  EXPECT_EQ(peer.process->wait(), 70);
  EXPECT_TRUE(recovers());
}

TEST_F(MpsHeldDeaths, HurtNobodyIfTheKernelsThatStillRunAtTheCloseAreShort) {
  auto peer = world.client();
  auto victim = killed_with("6", "4000");
  victim.held = Fd();
  EXPECT_TRUE(loses_memory(victim));
  EXPECT_THAT(peer.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
}

TEST_F(MpsFaults, PlainKernelsAreTerminatedThenKilledWithoutHarm) {
  for (int i = 0; i < 4; ++i) {
    auto peer = world.client({"--kernel-ms", "1"});
    const auto victim = world.client({"--kernel-ms", "200", "--queue", "20", "--stay"});
    EXPECT_NE(victim.process->line_with("\"launch\""), "");
    const std::string pid = std::to_string(victim.process->pid());
    EXPECT_EQ(world.ask("terminate_client " + std::to_string(world.server()) + " " + pid), "0\n");
    EXPECT_THAT(victim.process->line_with("\"error\":"), HasSubstr("CUDA_ERROR_MPS_CLIENT_TERMINATED"));
    victim.process->signal(SIGKILL);
    victim.process->wait();
    const std::string log = log_of_death(victim);
    EXPECT_NE(log, "");
    EXPECT_THAT(log, Not(HasSubstr("encountered a fatal GPU error")));
    EXPECT_THAT(peer.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
  }
}

// docs/internals/evidence/stopping.md: 29 of 30, with and without a kill afterwards.
TEST_F(MpsFaults, TerminatingTensorKernelsKillsThePeersAndIsReportedAsASuccess) {
  for (const bool kill : {false, true}) {
    auto peer = world.client({"--kernel-ms", "1"});
    const auto victim = world.client({"--kernel-ms", "200", "--queue", "20", "--tensor", "--stay"});
    EXPECT_NE(victim.process->line_with("\"launch\""), "");
    const std::string pid = std::to_string(victim.process->pid());
    EXPECT_EQ(world.ask("terminate_client " + std::to_string(world.server()) + " " + pid), "0\n");
    if (kill) victim.process->signal(SIGKILL);
    EXPECT_THAT(peer.process->line_with("\"event\":\"error\""), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
    EXPECT_EQ(peer.process->wait(), 70);
    if (!kill) {
      EXPECT_THAT(victim.process->line_with("\"error\":"), HasSubstr("CUDA_ERROR_MPS_CLIENT_TERMINATED"));
    }
    EXPECT_TRUE(recovers()) << "though the terminated process may live on";
  }
}

TEST_F(MpsFaults, TerminatingTensorKernelsThatAreShortOrHaveRunOutHurtsNobody) {
  auto peer = world.client({"--kernel-ms", "1"});
  auto brief = world.client({"--kernel-ms", "3", "--queue", "40", "--tensor", "--stay"});
  EXPECT_NE(brief.process->line_with("\"launch\""), "");
  auto done = world.client({"--tensor", "--stay"});
  done.obey("launch 200", "launch");
  EXPECT_THAT(done.obey("sync", "sync"), HasSubstr("CUDA_SUCCESS"));
  for (const auto* victim : {&brief, &done}) {
    const std::string pid = std::to_string(victim->process->pid());
    EXPECT_EQ(world.ask("terminate_client " + std::to_string(world.server()) + " " + pid), "0\n");
    victim->process->signal(SIGKILL);
    victim->process->wait();
    EXPECT_THAT(log_of_death(*victim), Not(HasSubstr("encountered a fatal GPU error")));
  }
  EXPECT_THAT(peer.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
}

TEST_F(MpsFaults, ATerminatedClientLosesItsMemoryStaysListedAndANewOneMayStart) {
  const auto victim = world.client({"--allocate", "1G", "--stay"});
  victim.process->line_with("\"allocate\"");
  const std::string server = std::to_string(world.server()), pid = std::to_string(victim.process->pid());
  EXPECT_EQ(world.ask("terminate_client " + server + " " + pid), "0\n");
  for (const auto& row : world.node()->processes(0)) EXPECT_NE(row.pid, victim.process->pid());
  EXPECT_EQ(world.ask("get_client_list " + server), pid + "\n");
  EXPECT_TRUE(world.client().mps());
  EXPECT_EQ(world.ask("terminate_client " + server + " 1"), "201\n") << "a process that is no client";
}

TEST(MpsFaultsOfTwoGpus, AnIllegalAddressTakesEveryClientOfThatGpuAndNoOther) {
  MpsWorld world("gpus: {profile: H200, count: 2}\n");
  world.start_daemon();
  auto culprit = world.client({"--stay"}), victim = world.client({"--stay"});
  auto bystander = world.client({}, {{"CUDA_VISIBLE_DEVICES", "1"}});
  const std::string server = std::to_string(world.server());
  EXPECT_THAT(culprit.obey("fault", "fault"), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(victim.process->line_with("\"error\":"), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(bystander.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
  // The log names the culprit first, and then the clients that died with it.
  const std::string pid = std::to_string(culprit.process->pid());
  EXPECT_NE(world.daemon().line_with("Client {PID: " + pid + ", Context: 1} encountered a fatal GPU error."), "");
  EXPECT_NE(world.daemon().line_with("Server is handling a fatal GPU error."), "");
  EXPECT_NE(world.daemon().line_with("All clients belonging to error trigging process " + pid), "");
  EXPECT_NE(world.daemon().line_with("All clients belonging to error trigging process " +
                                     std::to_string(victim.process->pid()) + " will be torn down"),
            "");
  // While one of them lives the server is in FAULT and admits no client; afterwards it is healthy again.
  EXPECT_EQ(world.ask("get_server_status " + server), "FAULT\n");
  auto refused = world.client();
  EXPECT_THAT(refused.first, HasSubstr("CUDA_ERROR_MPS_SERVER_NOT_READY"));
  EXPECT_EQ(refused.process->wait(), 87);
  for (auto* one : {&culprit, &victim}) {
    one->process->signal(SIGKILL);
    one->process->wait();
    world.daemon().line_with("Client process " + std::to_string(one->process->pid()) + " disconnected");
  }
  EXPECT_EQ(world.ask("get_server_status " + server), "ACTIVE\n");
  EXPECT_TRUE(world.client().mps());
}

TEST_F(MpsFaults, AfterADeathTheLogNamesAnInnocentPeer) {
  const auto peer = world.client();
  const auto killed = world.client({"--kernel-ms", "200", "--queue", "20"});
  EXPECT_NE(killed.process->line_with("\"launch\""), "");
  killed.process->signal(SIGKILL);
  killed.process->wait();
  EXPECT_NE(world.daemon().line_with("assuming client {PID: " + std::to_string(killed.process->pid()) +
                                     ", Context ID: 1} exit"),
            "");
  EXPECT_NE(world.daemon().line_with("Client {PID: " + std::to_string(peer.process->pid()) +
                                     ", Context: 1} encountered a fatal GPU error."),
            "");
}

TEST_F(MpsFaults, AFaultIsAnXidOfTheGpu) {
  auto client = world.client();
  const auto node = world.node();
  const auto before = node->newest_event();
  client.obey("fault", "fault");
  EventRow event;
  ASSERT_TRUE(node->wait_event(before, 60'000, &event));
  EXPECT_EQ(event.kind, EventKind::kXid);
  EXPECT_EQ(event.data, 31u);
}

TEST_F(MpsFaults, AKilledServerFailsItsClientsAndTheNextClientGetsAnother) {
  auto client = world.client();
  const pid_t server = world.server();
  ::kill(server, SIGKILL);
  EXPECT_EQ(client.process->wait(), 86);
  EXPECT_NE(world.daemon().line_with("Server " + std::to_string(server) + " exited with status 0"), "");
  EXPECT_EQ(world.ask("get_server_list"), "");
  EXPECT_TRUE(world.client().mps());
  EXPECT_NE(world.server(), server);
}

}  // namespace faults_test
}  // namespace tranche::sim
