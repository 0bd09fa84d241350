// One pool: start, service, kill, adoption, stop.
#include "mps/pool/pool_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <fstream>

#include "damage.h"
#include "os/socket/socket_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::HasSubstr;

TEST_F(PoolTest, ServesWithLimitsAppliedAndReadBack) {
  serve();
  EXPECT_EQ(pool_->supervisor().read_back, (DaemonLimits{{{kUuid, gib(14)}}, Percent::whole(10)}));
  EXPECT_EQ(ask_daemon("get_default_device_pinned_mem_limit " + kUuid), "14G\n");
  EXPECT_EQ(ask_daemon("get_default_active_thread_percentage"), "10.0\n");
}

TEST_F(PoolTest, GivesTheDaemonExactlyItsEnvironment) {
  serve();
  const auto text = os::read_file("/proc/" + std::to_string(pool_->daemon_pid()) + "/environ");
  ASSERT_TRUE(text);
  for (const std::string& one : {"CUDA_MPS_PIPE_DIRECTORY=" + pipe(), "CUDA_VISIBLE_DEVICES=" + kUuid,
                                 "CUDA_MPS_LOG_DIRECTORY=" + (scratch_ / "pools/gpu-3f2a1b4c/log")}) {
    EXPECT_THAT(*text, HasSubstr(one));
  }
  EXPECT_EQ(std::ranges::count(*text, '\0'), 5);  // and the two that the stand-in needs
}

TEST_F(PoolTest, ServesAgainAfterItsDaemonWasKilled) {
  // So that its end shows it, not the next look.
  fast_.health_every = fast_.rest_every = fast_.ping_every = fast_.rest_ping_every = 1h;
  serve();
  const pid_t first = pool_->daemon_pid();
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != first && pool_->supervisor().state == State::kServing; }));
  EXPECT_EQ(pool_->supervisor().restarts, 1u);
  EXPECT_EQ(ask_daemon("get_default_device_pinned_mem_limit " + kUuid), "14G\n");
  const auto seen_down = std::ranges::any_of(history_, [](const Supervisor& s) {
    return s.state == State::kBackingOff && s.reason == "the MPS control daemon was killed by signal 9 (Killed)";
  });
  EXPECT_TRUE(seen_down);
}

// Promise: mps/daemon: A mute daemon leaves `serving` within two seconds and needs no restart.
TEST_F(PoolTest, LeavesServingWithAMuteDaemonByItsPingAndServesAgainWithoutARestart) {
  fast_.health_every = fast_.rest_every = 1h;  // so that only the ping detects it
  fast_.ping_deadline = SupervisorSettings{}.ping_deadline;
  serve();
  ASSERT_TRUE(until([&] { return pool_->supervisor().greets; }));
  const pid_t pid = pool_->daemon_pid();
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_TRUE(until([&] { return pool_->supervisor().state != State::kServing; }));
  EXPECT_EQ(daemon_state(pool_->supervisor()), "mute");
  EXPECT_THAT(pool_->supervisor().reason, HasSubstr("does not answer (no greeting within 400 ms"));
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  ASSERT_TRUE(until_state(State::kServing));
  EXPECT_EQ(pool_->daemon_pid(), pid);
  EXPECT_EQ(pool_->supervisor().restarts, 0u);
}

TEST_F(PoolTest, ReplacesADaemonThatStaysMute) {
  fast_.question_deadline = 1s;
  fast_.mute_patience = 1s;
  serve();
  const pid_t pid = pool_->daemon_pid();
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_TRUE(until([&] { return pool_->daemon_pid() != pid && pool_->supervisor().state == State::kServing; }));
  EXPECT_FALSE(runs(pid));
}

// Promise: mps/daemon: A stopped pool leaves no process.
TEST_F(PoolTest, StopLeavesNoProcess) {
  serve();
  const pid_t pid = pool_->daemon_pid();
  (void)ask_daemon("start_server -uid " + std::to_string(::getuid()));
  ASSERT_TRUE(until([&] { return !pool_->supervisor().servers.empty(); }));
  const pid_t server = pool_->supervisor().servers[0].pid;
  pool_->stop();
  ASSERT_TRUE(until([&] { return pool_->gone(); }));
  EXPECT_FALSE(runs(pid));
  EXPECT_FALSE(runs(server));
  EXPECT_EQ(pool_->supervisor().state, State::kAbsent);
}

// Promise: mps/daemon: A daemon that does not stop is killed.
TEST_F(PoolTest, KillsADaemonThatWillNotStop) {
  fast_.quit_patience = 200ms;
  fast_.exit_patience = 100ms;
  serve();
  const pid_t pid = pool_->daemon_pid();
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  pool_->stop();
  ASSERT_TRUE(until([&] { return pool_->gone(); }));
  EXPECT_FALSE(runs(pid));
}

TEST_F(PoolTest, AdoptsTheDaemonFromBeforeARestartAndChecksItsLimits) {
  serve();
  const pid_t pid = pool_->daemon_pid();
  pool_.reset();
  history_.clear();
  ASSERT_TRUE(runs(pid)) << "the daemon must outlive us";
  serve();
  EXPECT_EQ(pool_->daemon_pid(), pid);
  EXPECT_THAT(pool_->supervisor().reason, HasSubstr("adopted"));
  EXPECT_EQ(pool_->supervisor().read_back, (DaemonLimits{{{kUuid, gib(14)}}, Percent::whole(10)}));
}

TEST_F(PoolTest, AdoptsItsDaemonWhateverBecameOfItsPidFile) {
  serve();
  const pid_t daemon = pool_->daemon_pid();
  const std::string file = pipe() + "/nvidia-cuda-mps-control.pid";
  auto kinds = all_damage();
  kinds.push_back({"removed", [](const std::string& path) { std::filesystem::remove_all(path); }});
  kinds.push_back({"of another process", [](const std::string& path) { std::ofstream(path) << ::getpid(); }});
  kinds.push_back({"of the kernel", [](const std::string& path) { std::ofstream(path) << 2; }});
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.name);
    pool_.reset();
    std::filesystem::remove_all(file);
    std::ofstream(file) << daemon;
    kind.spoil(file);
    serve();
    ASSERT_EQ(pool_->daemon_pid(), daemon);
  }
}

TEST_F(PoolTest, StartsADaemonWhateverADeadOneLeft) {
  for (const auto& kind : all_damage()) {
    for (const char* name : {"nvidia-cuda-mps-control.pid", "control", "control_lock", "log"}) {
      SCOPED_TRACE(kind.name + " " + name);
      std::filesystem::create_directories(pipe());
      kind.spoil(pipe() + "/" + name);
    }
    serve();
    pool_->stop();
    ASSERT_TRUE(until([&] { return pool_->gone(); }));
  }
}

TEST_F(PoolTest, PoolsAreClosedToOtherUsersAlsoWhereTheyWereOpen) {
  const std::string pools = scratch_ / "mps/pools";
  const auto mode = [&] {
    struct stat status{};
    return ::stat(pools.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  };
  ASSERT_TRUE(set_reach(scratch_ / "mps", false));
  EXPECT_EQ(mode(), 0700u);
  ASSERT_TRUE(set_reach(scratch_ / "mps", true));
  EXPECT_EQ(mode(), 0711u) << "servers of other users pass, and list nothing";
  ASSERT_EQ(::chmod(pools.c_str(), 0755), 0);
  ASSERT_TRUE(set_reach(scratch_ / "mps", false));
  EXPECT_EQ(mode(), 0700u);
}

// Runs with the daemon's name and environment but is not the daemon: of another user, in a container, another program.
class Impostor {
 public:
  enum class As { kNobody, kInAContainer, kOurUser };
  Impostor(const std::string& folder, const std::string& pipe, As as) {
    std::filesystem::create_directories(folder);
    const std::string program = folder + "/nvidia-cuda-mps-control";
    std::filesystem::copy_file("/usr/bin/tail", program, std::filesystem::copy_options::overwrite_existing);
    const std::string first = "CUDA_MPS_PIPE_DIRECTORY=" + pipe, second = "CUDA_VISIBLE_DEVICES=" + kUuid;
    pid_ = ::fork();
    if (pid_ == 0) {
      const int fd = ::open(program.c_str(), O_PATH | O_CLOEXEC);
      if (as == As::kInAContainer && ::unshare(CLONE_NEWNS) != 0) ::_exit(1);
      if (as == As::kNobody && ::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
      const char* argv[] = {program.c_str(), "-f", "/dev/null", nullptr};  // an option that the daemon has, too
      const char* env[] = {first.c_str(), second.c_str(), nullptr};
      ::fexecve(fd, const_cast<char**>(argv), const_cast<char**>(env));
      ::_exit(1);
    }
  }
  ~Impostor() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;
  pid_t pid() const { return pid_; }
  // An exec shows the new program before the new environment.
  bool began() const {
    std::error_code none;
    const std::string folder = "/proc/" + std::to_string(pid_);
    return std::filesystem::read_symlink(folder + "/exe", none).filename() == "nvidia-cuda-mps-control" &&
           os::read_file(folder + "/environ").value_or("").contains("CUDA_MPS_PIPE_DIRECTORY=");
  }

 private:
  pid_t pid_ = 0;
};

TEST_F(PoolTest, NeverAdoptsAProcessOfAnotherUserOrOfAContainer) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const std::string file = pipe() + "/nvidia-cuda-mps-control.pid";
  for (const auto as : {Impostor::As::kNobody, Impostor::As::kInAContainer}) {
    SCOPED_TRACE(static_cast<int>(as));
    const Impostor impostor(scratch_ / "impostor", pipe(), as);
    ASSERT_TRUE(until([&] { return impostor.began(); }));
    serve();
    const pid_t daemon = pool_->daemon_pid();
    ASSERT_NE(daemon, impostor.pid());
    pool_.reset();
    std::ofstream(file) << impostor.pid();
    serve();
    EXPECT_EQ(pool_->daemon_pid(), daemon) << "beside the daemon";
    ASSERT_EQ(::kill(daemon, SIGKILL), 0);
    std::ofstream(file) << impostor.pid();
    ASSERT_TRUE(until([&] { return pool_->supervisor().state == State::kServing && pool_->daemon_pid() != daemon; }))
        << pool_->supervisor().reason;
    EXPECT_NE(pool_->daemon_pid(), impostor.pid()) << "in the daemon's place";
    pool_->stop();
    ASSERT_TRUE(until([&] { return pool_->gone(); }));
    pool_.reset();
  }
}

TEST_F(PoolTest, NamesAProgramThatIsNotTheConfiguredOneAndStartsNoneBesideIt) {
  const Impostor impostor(scratch_ / "impostor", pipe(), Impostor::As::kOurUser);
  ASSERT_TRUE(until([&] { return impostor.began(); }));
  open_pool();
  pool_->want(kLimits);
  ASSERT_TRUE(until_state(State::kBackingOff));
  EXPECT_THAT(pool_->supervisor().reason, HasSubstr("the configured program is " + settings().binary.path));
}

TEST_F(PoolTest, GivesAnAdoptedDaemonTheLimitsItLacks) {
  serve();
  const pid_t pid = pool_->daemon_pid();
  pool_.reset();
  serve(kOther);
  EXPECT_EQ(pool_->daemon_pid(), pid);
  EXPECT_EQ(ask_daemon("get_default_device_pinned_mem_limit " + kUuid), "28G\n");
}

// Promise: mps/limits/limits: Changed limits reach a running server for clients to come.
TEST_F(PoolTest, ChangesTheLimitsOfARunningServerForClientsToCome) {
  serve();
  (void)start_client({"--hold"});
  ASSERT_TRUE(until([&] { return live_clients(pool_->supervisor()) > 0; }));
  const pid_t pid = pool_->daemon_pid();
  const pid_t server = pool_->supervisor().servers[0].pid;
  pool_->want(kOther);
  EXPECT_NE(pool_->supervisor().state, State::kServing);
  ASSERT_TRUE(until_state(State::kServing));
  EXPECT_EQ(pool_->daemon_pid(), pid);
  EXPECT_EQ(ask_daemon("get_default_active_thread_percentage"), "20.0\n");
  EXPECT_EQ(ask_daemon("get_active_thread_percentage " + std::to_string(server)), "20.0\n");
  EXPECT_EQ(ask_daemon("get_device_pinned_mem_limit " + std::to_string(server) + " " + kUuid), "28G\n");
  (void)start_client({"--hold"});
  EXPECT_THAT(output().front(), HasSubstr("\"runs_on\":12"));
  EXPECT_THAT(output().back(), HasSubstr("\"runs_on\":26"));
}

// Promise: mps/limits/limits: Limits that a foreign process changed are restored.
TEST_F(PoolTest, MendsTheLimitsOfAServerThatSomebodyChanged) {
  serve();
  (void)start_client({"--hold"});
  ASSERT_TRUE(until([&] { return !pool_->supervisor().servers.empty(); }));
  const std::string server = std::to_string(pool_->supervisor().servers[0].pid);
  (void)ask_daemon("set_active_thread_percentage " + server + " 100");
  ASSERT_TRUE(until([&] { return ask_daemon("get_active_thread_percentage " + server) == "10.0\n"; }));
}

// Promise: mps/daemon: A daemon starts over stale sockets.
TEST_F(PoolTest, StartsOverStaleSockets) {
  open_pool();
  const os::Fd stale = os::socket_at(pipe() + "/control", 0, SOCK_SEQPACKET);
  const auto dir = os::Dir::open(pipe());
  ASSERT_TRUE(dir->write_atomically("nvidia-cuda-mps-control.pid", std::to_string(::getpid())));
  const ino_t old = inode_of(pipe() + "/control");
  pool_->want(kLimits);
  ASSERT_TRUE(until_state(State::kServing));
  EXPECT_NE(inode_of(pipe() + "/control"), old);
}

TEST_F(PoolTest, LeavesAForeignDaemonAloneAndNamesIt) {
  serve();
  const pid_t pid = pool_->daemon_pid();
  auto other = settings();
  other.devices = {"GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff"};
  auto second = PoolDaemon::open(*loop_, other, [] {});
  ASSERT_TRUE(second);
  (*second)->want(kLimits);
  ASSERT_TRUE(until([&] { return (*second)->supervisor().state == State::kBackingOff; }));
  EXPECT_THAT((*second)->supervisor().reason, HasSubstr("an MPS control daemon (pid " + std::to_string(pid) + ")"));
  (*second)->stop();
  EXPECT_TRUE((*second)->gone());
  EXPECT_TRUE(runs(pid));
}

// Promise: mps/daemon: A path too long for a socket is refused first.
TEST_F(PoolTest, RefusesAPathThatIsTooLongForASocket) {
  auto s = settings();
  s.paths.mps_root = scratch_ / std::string(80, 'x');
  const auto pool = PoolDaemon::open(*loop_, s, [] {});
  ASSERT_FALSE(pool);
  EXPECT_THAT(pool.error().what, HasSubstr("choose a shorter MPS root"));
}

TEST_F(PoolTest, GivesUpOnAProgramThatCannotRunAndSaysSo) {
  fast_.start_limit = 3;
  auto s = settings();
  s.binary.path = scratch_ / "nothing";
  s.supervisor = fast_;
  auto pool = PoolDaemon::open(*loop_, s, [] {});
  ASSERT_TRUE(pool);
  (*pool)->want(kLimits);
  ASSERT_TRUE(until([&] { return (*pool)->supervisor().state == State::kGivenUp; }));
  EXPECT_THAT((*pool)->supervisor().reason, HasSubstr("given up after 3 failures"));
}

}  // namespace
}  // namespace tranche::mps
