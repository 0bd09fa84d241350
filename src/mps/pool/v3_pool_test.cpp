// A pool in tier v3, with the stand-in daemon of release 615: a server, and a namespace with limits for each grant.
#include "mps/daemon/adoption.h"
#include "mps/pool/pool_fixture.h"

namespace tranche::host {
namespace {

using ::testing::HasSubstr;

const std::string kGrant = "0011223344556677";

class V3PoolTest : public PoolTest {
 protected:
  void SetUp() override {
    PoolTest::SetUp();
    const auto dir = Dir::open(scratch_.path());
    ASSERT_TRUE(
        dir->write_atomically("node.yaml", "driver: 615.10\ngpus:\n  - profile: H200\n    uuid: " + kUuid + "\n"));
  }
  PoolSettings settings() override {
    auto s = PoolTest::settings();
    s.tier = mps::Tier::kV3;
    return s;
  }
  static mps::DaemonLimits limits() {
    auto l = kLimits;
    l.namespaces = {{kGrant, {mib(4096), Percent::whole(25)}}};
    return l;
  }
  void serve_with(const mps::DaemonLimits& wanted) {
    open_pool();
    pool_->want(wanted);
    ASSERT_TRUE(until_state(mps::State::kServing)) << pool_->supervisor().reason;
  }
  // A CUDA process through the socket of a namespace; "" = the server's own.
  pid_t start_through(const std::string& name) {
    auto env = pool_->environment();
    env["CUDA_MPS_PIPE_DIRECTORY"] = pipe() + "/pool" + (name.empty() ? "" : "/" + name);
    const std::size_t lines = output_.size();
    auto process = Process::start(
        *loop_, {.argv = {standins() + "/sim-cuda", "--hold"}, .env = env, .kill_on_drop = true},
        [this](const std::string& line) { output_.push_back(line); }, [](ExitNote) {});
    EXPECT_TRUE(process);
    EXPECT_TRUE(until([&] { return output_.size() > lines; }));
    clients_.push_back(*std::move(process));
    return clients_.back()->ref().pid;
  }
};

TEST_F(V3PoolTest, ServesWithANamespaceForEachGrantAndItsLimitsReadBack) {
  serve_with(limits());
  EXPECT_EQ(mps::disagreement(limits(), *pool_->supervisor().read_back), "");
  EXPECT_TRUE(until([&] {
    const auto& servers = pool_->supervisor().servers;
    return servers.size() == 1 && servers[0].status == "ACTIVE";
  }));
  EXPECT_EQ(tier_of_adoptable(settings().paths, "gpu-3f2a1b4c"), mps::Tier::kV3);
}

TEST_F(V3PoolTest, AClientHasTheLimitsOfTheSocketThatItComesThrough) {
  serve_with(limits());
  const pid_t tenant = start_through(kGrant);
  EXPECT_THAT(output_.back(), HasSubstr("\"runs_on\":32"));
  EXPECT_THAT(output_.back(), HasSubstr("\"limit\":4294967296"));
  (void)start_through("");
  EXPECT_THAT(output_.back(), HasSubstr("\"runs_on\":12")) << "whoever names no namespace has the server's limits";
  ASSERT_TRUE(until([&] {
    const auto& servers = pool_->supervisor().servers;
    return servers.size() == 1 && std::ranges::count(servers[0].clients, tenant) == 1 && servers[0].clients.size() == 2;
  }));
}

TEST_F(V3PoolTest, MakesEverythingAgainForANewDaemonAndAdoptsOneAsItIs) {
  serve_with(limits());
  const pid_t first = pool_->daemon_pid();
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != first && pool_->supervisor().state == mps::State::kServing; }));
  const pid_t second = pool_->daemon_pid();
  pool_.reset();
  serve_with(limits());
  EXPECT_EQ(pool_->daemon_pid(), second);
  EXPECT_THAT(pool_->supervisor().reason, HasSubstr("adopted"));
  (void)start_through(kGrant);
  EXPECT_THAT(output_.back(), HasSubstr("\"runs_on\":32"));
}

TEST_F(V3PoolTest, MakesAServerThatIsGoneAgainWithItsNamespaces) {
  serve_with(limits());
  ASSERT_TRUE(until([&] { return pool_->supervisor().servers.size() == 1; }));
  const pid_t server = pool_->supervisor().servers[0].pid;
  history_.clear();
  ASSERT_EQ(::kill(server, SIGKILL), 0);
  ASSERT_TRUE(until([&] {
    const auto& s = pool_->supervisor();
    return s.state == mps::State::kServing && s.servers.size() == 1 && s.servers[0].pid != server;
  }));
  EXPECT_EQ(pool_->supervisor().restarts, 0u) << "the daemon itself lived on";
  EXPECT_TRUE(std::ranges::any_of(history_, [](const mps::Supervisor& s) {
    return s.reason == "the daemon has no server for this pool; it is being made again";
  }));
  (void)start_through(kGrant);
  EXPECT_THAT(output_.back(), HasSubstr("\"runs_on\":32"));
}

TEST_F(V3PoolTest, MakesANamespaceWithoutLeavingServiceAndDeletesItAgain) {
  serve_with(limits());
  (void)start_through(kGrant);
  history_.clear();
  auto more = limits();
  more.namespaces.push_back({"8899aabbccddeeff", {mib(8192), Percent::whole(50)}});
  std::optional<Status> done;
  pool_->change(more, 5s, [&](const Status& status) { done = status; });
  ASSERT_TRUE(until([&] { return done.has_value(); }));
  ASSERT_TRUE(*done) << to_string(done->error());
  (void)start_through("8899aabbccddeeff");
  EXPECT_THAT(output_.back(), HasSubstr("\"runs_on\":66"));
  for (const auto& s : history_) EXPECT_EQ(s.state, mps::State::kServing) << s.reason;
  EXPECT_EQ(pool_->supervisor().desired.namespaces.size(), 2u);
  std::optional<mps::Event> event;
  pool_->side_query(mps::delete_namespace(kGrant), 5s, [&](const mps::Event& what) { event = what; });
  ASSERT_TRUE(until([&] { return event.has_value(); }));
  ASSERT_TRUE(std::holds_alternative<mps::QuestionFailed>(*event)) << "it has a client";
  EXPECT_THAT(std::get<mps::QuestionFailed>(*event).error.what, HasSubstr("has clients"));
}

TEST_F(V3PoolTest, EndsClients) {
  serve_with(limits());
  const pid_t tenant = start_through(kGrant);
  std::vector<mps::Terminated> outcomes_seen;
  pool_->set_stop_patience(10ms);
  pool_->end_clients({{tenant, ::getpid()}},
                     [&](const std::vector<mps::Terminated>& outcomes) { outcomes_seen = outcomes; });
  ASSERT_TRUE(until([&] { return !outcomes_seen.empty(); }));
  ASSERT_EQ(outcomes_seen.size(), 2u);
  EXPECT_EQ(outcomes_seen[0].pid, tenant);
  EXPECT_EQ(outcomes_seen[0].outcome, mps::TerminateOutcome::kTerminated);
  EXPECT_EQ(outcomes_seen[1].outcome, mps::TerminateOutcome::kNotAClient);
}

TEST_F(V3PoolTest, StopLeavesNoProcess) {
  serve_with(limits());
  const pid_t pid = pool_->daemon_pid();
  pool_->stop();
  ASSERT_TRUE(until([&] { return pool_->gone(); }));
  EXPECT_FALSE(runs(pid));
}

}  // namespace
}  // namespace tranche::host
