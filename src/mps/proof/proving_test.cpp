// A pool that proves itself with CUDA starts: with the real probe on the stand-in driver, and with a program of the
// test that hangs while a file exists, because the stand-in daemon has no wedge.
#include <poll.h>
#include <sys/stat.h>

#include "mps/pool/pool_fixture.h"
#include "standins/mps/handshake.h"

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kProbe = R"sh(#!/bin/sh
if [ -e "$0.wedged" ]; then
  echo "tranche probe: no answer from the driver within 10 ms while starting CUDA (cuInit)" >&2
  exit 1
fi
[ -e "$0.hangs" ] && sleep 100
[ -e "$0.attaches" ] && exec "$TRANCHE_BUILD/standins/sim-cuda" --hold
echo '{"mps":{"connected":true}}'
)sh";

class PoolProof : public PoolTest {
 protected:
  void SetUp() override {
    PoolTest::SetUp();
    const auto dir = os::Dir::open(scratch_.path());
    ASSERT_TRUE(dir->write_atomically("probe", kProbe));
    ASSERT_EQ(::chmod((scratch_ / "probe").c_str(), 0755), 0);
    proof_.again = 20ms;
    proof_.settle = 20ms;
    program_ = {scratch_ / "probe"};
  }
  PoolSettings settings() override {
    auto s = PoolTest::settings();
    s.proof = proof_;
    s.proof_program = program_;
    s.binary.env["LD_LIBRARY_PATH"] = standins();
    s.binary.env["PATH"] = "/usr/bin:/bin";
    return s;
  }
  void say(const std::string& what, bool yes) {
    const auto dir = os::Dir::open(scratch_.path());
    const std::string name = "probe." + what;
    ASSERT_TRUE(yes ? dir->write_atomically(name, "") : dir->remove(name));
  }
  bool until_word(const std::string& word) {
    return until([&] { return pool_->state_name() == word; });
  }
  void serve_proven() {
    open_pool();
    pool_->want(kLimits);
    ASSERT_TRUE(until_word("serving")) << pool_->reason();
  }
  ProofSettings proof_;
  std::vector<std::string> program_;
};

// Promise: mps/proof/proof: A real CUDA start comes before `serving`.
TEST_F(PoolProof, ByARealCudaStartComesBeforeServing) {
  program_ = {std::string(std::getenv("TRANCHE_BUILD")) + "/standins/probe-alone"};
  open_pool();
  pool_->want(kLimits);
  std::vector<std::string> words;
  ASSERT_TRUE(until([&] {
    const std::string word(pool_->state_name());
    if (words.empty() || words.back() != word) words.push_back(word);
    return word == "serving";
  })) << pool_->reason();
  EXPECT_EQ(words[words.size() - 2], "proving");
  EXPECT_EQ(pool_->proof().state, ProofState::kProven) << pool_->proof().reason;
  const std::string log = settings().paths.log("gpu-3f2a1b4c") + "/control.log";
  EXPECT_TRUE(until([&] { return os::read_file(log).value_or("").contains("NEW CLIENT"); })) << "it came another way";
  EXPECT_EQ(pool_->supervisor().failures, 0);
}

// Promise: mps/proof/proof: Without a CUDA library the proof is `unknown` and the pool serves.
TEST_F(PoolProof, WithoutACudaLibraryIsUnknownAndServes) {
  program_ = {std::string(std::getenv("TRANCHE_BUILD")) + "/standins/probe-alone"};
  auto s = settings();
  s.binary.env["LD_LIBRARY_PATH"] = scratch_ / "nothing";
  auto pool = PoolDaemon::open(*loop_, s, [this] { wake(); });
  ASSERT_TRUE(pool);
  pool_ = *std::move(pool);
  pool_->want(kLimits);
  ASSERT_TRUE(until_word("serving"));
  EXPECT_EQ(pool_->proof().state, ProofState::kUnknown);
  EXPECT_THAT(pool_->proof().reason, HasSubstr("libcuda.so.1"));
}

// Promise: mps/proof/proof: A first failure is repeated and ends no client.
TEST_F(PoolProof, ThatFailsOnceIsRepeatedAndEndsNobody) {
  open_pool();
  say("wedged", true);
  pool_->want(kLimits);
  ASSERT_TRUE(until_word("wedged"));
  say("wedged", false);
  ASSERT_TRUE(until_word("serving"));
  EXPECT_EQ(pool_->proof().clients_ended + pool_->proof().servers_ended + pool_->proof().daemons_ended, 0u);
}

// Promise: mps/proof/proof: Two failures end the clients first, then the server, then the daemon.
TEST_F(PoolProof, ThatFailsEndsTheClientsFirstAndThenServesAgain) {
  proof_.every = 50ms;
  serve_proven();
  const pid_t client = start_client({"--hold"});
  ASSERT_TRUE(until([&] { return live_clients(pool_->supervisor()) > 0; }));
  const pid_t daemon = pool_->daemon_pid();
  say("wedged", true);
  ASSERT_TRUE(until([&] { return pool_->proof().step == Step::kClients; }));
  EXPECT_THAT(pool_->reason(), HasSubstr("new CUDA programs do not start: no answer from the driver"));
  EXPECT_THAT(pool_->reason(), HasSubstr("its clients were ended"));
  say("wedged", false);
  ASSERT_TRUE(until_word("serving"));
  EXPECT_TRUE(until([&] { return !runs(client); })) << "the client is there still";
  EXPECT_EQ(pool_->daemon_pid(), daemon);
  EXPECT_EQ(pool_->proof().clients_ended, 1u);
  EXPECT_EQ(pool_->proof().servers_ended, 0u);
}

// Promise: mps/proof/proof: Two failures end the clients first, then the server, then the daemon.
TEST_F(PoolProof, GoesOnToTheServerAndToTheDaemonUntilItPasses) {
  proof_.every = 50ms;
  serve_proven();
  (void)start_client({"--hold"});
  ASSERT_TRUE(until([&] { return live_clients(pool_->supervisor()) > 0; }));
  const pid_t daemon = pool_->daemon_pid(), server = pool_->supervisor().servers[0].pid;
  say("wedged", true);
  ASSERT_TRUE(until([&] { return pool_->proof().step == Step::kServers; })) << pool_->reason();
  ASSERT_TRUE(until([&] { return !runs(server); }));
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != daemon; })) << pool_->reason();
  EXPECT_FALSE(runs(daemon));
  say("wedged", false);
  ASSERT_TRUE(until_word("serving")) << pool_->reason();
  EXPECT_EQ(pool_->proof().daemons_ended, 1u);
  const auto found = std::ranges::any_of(history_, [](const Supervisor& s) {
    return s.reason.find("ending its clients and servers did not help") != std::string::npos;
  });
  EXPECT_TRUE(found);
}

// Promise: mps/proof/proof: A proof that hangs is killed at its deadline.
TEST_F(PoolProof, ThatHangsIsKilledAtItsDeadline) {
  proof_.deadline = 2s;
  open_pool();
  say("hangs", true);
  pool_->want(kLimits);
  ASSERT_TRUE(until([&] { return pool_->proof_pid() != 0; }));
  const pid_t probe = pool_->proof_pid();
  ASSERT_TRUE(until_word("wedged"));
  EXPECT_EQ(pool_->proof().reason, "a CUDA start hung and was killed at its deadline");
  EXPECT_TRUE(until([&] { return !runs(probe); }));
  say("hangs", false);
  ASSERT_TRUE(until_word("serving"));
}

// Promise: mps/proof/proof: Two failures end the clients first, then the server, then the daemon.
TEST_F(PoolProof, IsNoClientOfItsOwnWhenItHangsAfterItHasAttached) {
  // Twice that until the start is killed. It attaches in 0.1 s, on a busy machine with a sanitizer in 2 s.
  proof_.deadline = 4s;
  serve_proven();
  say("attaches", true);
  bool listed = false;
  pool_->doubt();
  ASSERT_TRUE(until([&] {
    const auto clients = client_pids(pool_->supervisor().servers);
    listed = listed || std::ranges::find(clients, pool_->proof_pid()) != clients.end();
    return pool_->proof().step != Step::kNone;
  })) << pool_->reason();
  EXPECT_TRUE(listed);
  say("attaches", false);
  ASSERT_TRUE(until_word("serving")) << pool_->reason();
  EXPECT_EQ(pool_->proof().clients_ended, 0u);
}

// A client takes its descriptor and hangs up: the server accepts no more clients, and each CUDA start that hangs on it
// blocks the daemon.
TEST_F(PoolProof, OfAServerThatAClientBrokeOffWithEndsTheServerAndThePoolDoesNotFlap) {
  proof_.deadline = 8s;  // a start takes 0.1 s, on a busy machine with a sanitizer 2 s
  program_ = {std::string(std::getenv("TRANCHE_BUILD")) + "/standins/probe-alone"};
  fast_.ping_every = 20ms;
  // So that a question ends just after a start, before the daemon can answer it.
  fast_.ping_deadline = fast_.question_deadline = proof_.deadline / 3;
  serve_proven();
  ASSERT_TRUE(until([&] { return !pool_->supervisor().servers.empty(); }));
  const pid_t daemon = pool_->daemon_pid(), server = pool_->supervisor().servers[0].pid;
  {
    const sim::Fd fd = sim::connect_to(pipe() + "/control");
    sim::Packet packet;
    const auto next = [&] {
      pollfd one{fd.get(), POLLIN, 0};
      return until([&] { return ::poll(&one, 1, 0) > 0; }) &&
             sim::receive_packet(fd.get(), &packet) == sim::Arrived::kPacket;
    };
    ASSERT_TRUE(next());
    ASSERT_TRUE(sim::introduce(fd.get(), sim::ConnectionType::kClient));
    ASSERT_TRUE(next());
    ASSERT_EQ(packet.bytes, sim::kDescriptor);
    ASSERT_TRUE(sim::send_packet(fd.get(), sim::kAcknowledged));
  }
  history_.clear();
  pool_->doubt();
  ASSERT_TRUE(until([&] { return pool_->proof().servers_ended == 1; })) << pool_->reason();
  ASSERT_TRUE(until_word("serving")) << pool_->reason();
  EXPECT_TRUE(until([&] { return !runs(server); }));
  EXPECT_EQ(pool_->daemon_pid(), daemon);
  const auto left =
      std::ranges::count_if(history_, [](const Supervisor& s) { return s.state == State::kStarting || s.mute; });
  EXPECT_EQ(left, 0) << "the daemon counted as mute while our own start held it";
}

TEST_F(PoolProof, IsMadeAgainOfAnAdoptedDaemonAndAfterAFault) {
  serve_proven();
  const pid_t daemon = pool_->daemon_pid();
  pool_.reset();
  serve_proven();
  EXPECT_EQ(pool_->daemon_pid(), daemon);
  EXPECT_EQ(pool_->proof().passed, 1u);
  EXPECT_EQ(pool_->supervisor().restarts, 0u);
  (void)start_client({"--allocate", "1G", "--fault"});
  ASSERT_TRUE(until([&] { return pool_->faults().last().size() == 1 && pool_->proof().passed >= 2; }))
      << pool_->reason();
}

TEST_F(PoolProof, ReportsTheCulpritOfAFaultAndOfADeath) {
  program_.clear();
  serve();
  const pid_t peer = start_client({"--allocate", "1G", "--hold"});
  const pid_t culprit = start_client({"--allocate", "1G", "--fault"});
  ASSERT_TRUE(
      until([&] { return pool_->faults().last().size() == 1 && !pool_->faults().last().back().victims.empty(); }));
  EXPECT_EQ(pool_->faults().last()[0].kind, FaultKind::kFatal);
  EXPECT_EQ(pool_->faults().last()[0].culprit, culprit);
  EXPECT_THAT(pool_->faults().last()[0].victims, ElementsAre(peer));
  ASSERT_TRUE(until([&] { return !runs(peer) && !runs(culprit); }));
  clients_.clear();
  const pid_t other = start_client({"--allocate", "1G", "--hold"});
  const pid_t killed = start_client({"--allocate", "1G", "--kernel-ms", "200", "--queue", "2", "--hold"});
  ASSERT_TRUE(until([&] { return output().back().find("launch") != std::string::npos; }));
  ASSERT_EQ(::kill(killed, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return pool_->faults().last().size() == 2; }));
  EXPECT_EQ(pool_->faults().last()[1].kind, FaultKind::kUncleanExit);
  EXPECT_EQ(pool_->faults().last()[1].culprit, killed);
  EXPECT_THAT(pool_->faults().last()[1].victims, ElementsAre(other));
  EXPECT_EQ(pool_->faults().total(FaultKind::kFatal), 1u);
  EXPECT_EQ(pool_->faults().total(FaultKind::kUncleanExit), 1u);
}

}  // namespace
}  // namespace tranche::mps
