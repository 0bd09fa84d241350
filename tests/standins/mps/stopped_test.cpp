// Clients that are stopped (SIGSTOP) and clients that are asked to stop (SIGTERM): docs/internals/evidence/stopping.md.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>

#include "standins/cuda/sim_cuda_options.h"
#include "standins/mps/mps_world.h"

namespace tranche::sim {
namespace stopped_test {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class MpsStopped : public testing::Test {
 protected:
  void start(const std::map<std::string, std::string>& env = {}) { world.start_daemon({"-M"}, env); }

  // Returns once the kernel has stopped it.
  static void stop(const MpsWorld::Client& client) {
    client.process->signal(SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(client.process->pid(), &status, WUNTRACED), client.process->pid());
    ASSERT_TRUE(WIFSTOPPED(status));
  }

  // Simulated GPU time is real time: when the peer's kernels are done, every other queue has advanced as much.
  static void let_pass(MpsWorld::Client& peer, int ms) {
    peer.obey("launch 1 " + std::to_string(ms), "launch");
    EXPECT_THAT(peer.obey("sync", "sync"), HasSubstr("CUDA_SUCCESS"));
  }

  // Kills the client; whether the server reports that a peer's context died with it.
  bool death_hurts(const MpsWorld::Client& client) {
    client.process->signal(SIGKILL);
    EXPECT_EQ(client.process->wait(), 128 + SIGKILL);
    const std::string log =
        world.daemon().lines_until("Client process " + std::to_string(client.process->pid()) + " disconnected");
    EXPECT_NE(log, "");
    return log.find("encountered a fatal GPU error") != std::string::npos;
  }

  MpsWorld world;
};

TEST_F(MpsStopped, TheDeathOfAStoppedClientHurtsNobodyOnceItsQueueHasRunOut) {
  start();
  auto peer = world.client();
  for (const bool tensor : {false, true}) {
    std::vector<std::string> options{"--kernel-ms", "200", "--queue", "2"};
    if (tensor) options.emplace_back("--tensor");
    const auto victim = world.client(options);
    EXPECT_NE(victim.process->line_with("\"launch\""), "");
    stop(victim);
    let_pass(peer, 2 * 200);
    EXPECT_FALSE(death_hurts(victim)) << (tensor ? "tensor" : "plain");
  }
  EXPECT_THAT(peer.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
}

TEST_F(MpsStopped, TheDeathOfAStoppedClientWhoseQueueStillRunsKillsThePeers) {
  start();
  for (const bool tensor : {false, true}) {
    auto peer = world.client();
    std::vector<std::string> options{"--kernel-ms", "200", "--queue", "300"};
    if (tensor) options.emplace_back("--tensor");
    const auto victim = world.client(options);
    EXPECT_NE(victim.process->line_with("\"launch\""), "");
    stop(victim);
    EXPECT_TRUE(death_hurts(victim)) << (tensor ? "tensor" : "plain");
    EXPECT_EQ(peer.process->wait(), 70);
  }
}

TEST_F(MpsStopped, AClientThatRunsOnSubmitsAgain) {
  start();
  auto peer = world.client();
  const auto victim = world.client({"--kernel-ms", "500", "--queue", "2", "--tensor"});
  EXPECT_NE(victim.process->line_with("\"launch\""), "");
  stop(victim);
  victim.process->signal(SIGCONT);
  let_pass(peer, 2 * 500);
  EXPECT_TRUE(death_hurts(victim));
}

TEST_F(MpsStopped, ToTerminateAStoppedClientHoldsTheDaemonUp) {
  constexpr std::chrono::milliseconds kHeldUp{500};
  start({{"TRANCHE_SIM_STOPPED_TERMINATE_MS", std::to_string(kHeldUp.count())}});
  auto peer = world.client({"--kernel-ms", "1"});
  const auto victim = world.client();
  const std::string server = std::to_string(world.server()), pid = std::to_string(victim.process->pid());
  stop(victim);
  const auto ask = [&](const std::string& line) {
    auto process = std::make_unique<TestProcess>(
        Spawn{.argv = {"nvidia-cuda-mps-control"}, .env = world.env(), .keep_stdin = true});
    process->say(line);
    process->close_stdin();
    return process;
  };
  const auto began = std::chrono::steady_clock::now();
  const auto terminate = ask("terminate_client " + server + " " + pid);
  EXPECT_NE(world.daemon().line_with("requesting client {PID: " + pid), "");
  const auto question = ask("get_server_list");
  const auto newcomer = world.start_client({"--hold"});
  EXPECT_THAT(peer.obey("info", "info"), HasSubstr("CUDA_SUCCESS")) << "clients that are in go on";
  EXPECT_EQ(terminate->rest(), "0\n");
  EXPECT_GE(std::chrono::steady_clock::now() - began, kHeldUp);
  EXPECT_NE(world.daemon().line_with("Client termination succeeded."), "");
  EXPECT_NE(world.daemon().line_with("Cmd:get_server_list"), "") << "afterwards";
  EXPECT_EQ(question->wait(), 0);
  EXPECT_NE(newcomer->line_with("attached"), "");
}

TEST_F(MpsStopped, AProgramThatSavesAtSigtermWritesItsFileWholeAndLeavesNobodyHurt) {
  start();
  auto peer = world.client({"--kernel-ms", "1"});
  const std::string path = world.dir() + "/saved";
  const auto saver = world.client({"--kernel-ms", "100", "--queue", "4", "--tensor", "--on-term", "0.3:" + path});
  EXPECT_NE(saver.process->line_with("\"launch\""), "");
  saver.process->signal(SIGTERM);
  EXPECT_THAT(saver.process->line_with("\"term\""), HasSubstr("CUDA_SUCCESS"));
  EXPECT_THAT(saver.process->line_with("\"save\""), HasSubstr("CUDA_SUCCESS"));
  EXPECT_EQ(saver.process->wait(), 0);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, StartsWith("part 1 of 64\n"));
  EXPECT_THAT(text, EndsWith(std::string("part 64 of 64\n") + kSavedEnd + "\n"));
  EXPECT_THAT(peer.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
}

TEST_F(MpsStopped, AProgramThatIsKilledWhileItSavesLeavesAFileThatIsNotWhole) {
  start();
  const std::string path = world.dir() + "/saved";
  auto saver = world.client({"--on-term", "600:" + path});
  saver.process->signal(SIGTERM);
  EXPECT_NE(saver.process->line_with("\"term\""), "");
  saver.process->signal(SIGKILL);
  EXPECT_EQ(saver.process->wait(), 128 + SIGKILL);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, Not(HasSubstr(kSavedEnd)));
}

TEST_F(MpsStopped, AProgramMayCatchSigtermAndGoOnAndEveryOtherDiesOfIt) {
  start();
  auto deaf = world.client({"--kernel-ms", "1", "--catch-term"});
  deaf.process->signal(SIGTERM);
  EXPECT_NE(deaf.process->line_with("\"term\""), "");
  EXPECT_THAT(deaf.obey("info", "info"), HasSubstr("CUDA_SUCCESS"));
  const auto plain = world.client({"--kernel-ms", "1", "--tensor"});
  plain.process->signal(SIGTERM);
  EXPECT_EQ(plain.process->wait(), 128 + SIGTERM);
  EXPECT_FALSE(plain.process->says("term"));
}

}  // namespace stopped_test
}  // namespace tranche::sim
