// Pauses of real processes that handle SIGTERM.
#include "mps/pool/client_pauses.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <numeric>

#include "mps/pool/endings.h"
#include "os/clock/clock.h"
#include "os/files/scratch.h"
#include "os/process/threads.h"
#include "run_until.h"

namespace tranche::host {
namespace {

using namespace std::chrono_literals;

constexpr const char* kOwner = "gpu-1/g1";

// It exits in its handler.
class Client {
 public:
  explicit Client(Loop& loop, std::size_t groups = 0) {
    int ready[2];
    if (::pipe(ready) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (groups > 0) {
        std::vector<gid_t> all(groups);
        std::iota(all.begin(), all.end(), 1'000'000'000);
        if (::setgroups(all.size(), all.data()) != 0) ::_exit(1);
      }
      ::signal(SIGTERM, [](int) { ::_exit(0); });
      if (::write(ready[1], "", 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) std::abort();
    ::close(ready[0]);
    ::close(ready[1]);
    ref_ = *process_ref(pid_);
    process_ = *Process::adopt(loop, ref_, [this](const ExitNote&) { exited_ = true; });
  }
  ~Client() { ::kill(pid_, SIGKILL); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const ProcessRef& ref() const { return ref_; }
  bool exited() const { return exited_; }
  bool stopped() const {
    const auto states = thread_states(pid_, 8);  // ThreadSanitizer has a thread of its own
    return !states.empty() && states.find_first_not_of('T') == std::string::npos;
  }
  bool runs() const { return thread_states(pid_, 8).find_first_of("RS") != std::string::npos; }
  void send(int signal) const { ASSERT_EQ(::kill(pid_, signal), 0); }

 private:
  pid_t pid_ = 0;
  ProcessRef ref_;
  std::unique_ptr<Process> process_;
  bool exited_ = false;
};

class ClientPausesTest : public ::testing::Test {
 protected:
  void pause(const std::vector<ProcessRef>& clients, Duration patience) {
    idle_ = false;
    begun_ = loop_->now();
    pauses_.begin({kOwner, clients, SIGTERM, patience}, [this] {
      idle_ = true;
      idle_at_ = loop_->now();
    });
  }
  bool until(const std::function<bool()>& condition) { return run_until(*loop_, condition); }
  void wait(Duration time) {
    (void)run_until(*loop_, [] { return false; }, time);
  }

  std::unique_ptr<Loop> loop_ = *Loop::open();
  int changes_ = 0;
  ClientPauses pauses_{*loop_, [this] { ++changes_; }};
  bool idle_ = false;
  MonoTime begun_{}, idle_at_{};
};

// Promise: stop: A client that handles the stop signal is paused before the signal, and gets it when its work is over.
TEST_F(ClientPausesTest, EndWithThePatienceWhereTheSignalIsPending) {
  Client client(*loop_);
  pause({client.ref()}, 2s);
  EXPECT_EQ(changes_, 1) << "before it is stopped";
  EXPECT_TRUE(until([&] { return client.stopped(); }));
  client.send(SIGTERM);
  EXPECT_TRUE(until([&] { return is_pending(client.ref().pid, SIGTERM); }));
  EXPECT_FALSE(is_pending(client.ref().pid, SIGUSR1));
  EXPECT_TRUE(until([&] { return client.exited(); }));
  EXPECT_GE(loop_->now() - begun_, 2s);
  EXPECT_TRUE(until([&] { return idle_; }));
  EXPECT_TRUE(until([&] { return pauses_.clients().empty(); }));
}

TEST_F(ClientPausesTest, GoOnUntilTheSignalIsPending) {
  Client client(*loop_);
  pause({client.ref()}, 50ms);
  EXPECT_TRUE(until([&] { return idle_; }));
  EXPECT_GE(idle_at_ - begun_, 50ms);
  EXPECT_TRUE(client.stopped()) << "the signal may be sent now";
  client.send(SIGTERM);
  EXPECT_TRUE(until([&] { return client.exited(); }));
}

TEST_F(ClientPausesTest, EndWithoutTheSignalAfterItsPatience) {
  Client client(*loop_);
  pause({client.ref()}, 50ms);
  EXPECT_TRUE(until([&] { return client.stopped(); }));
  EXPECT_TRUE(until([&] { return client.runs(); }));
  EXPECT_GE(loop_->now() - begun_, 50ms + kSignalPatience);
  EXPECT_TRUE(pauses_.clients().empty());
  EXPECT_EQ(changes_, 2);
}

TEST_F(ClientPausesTest, OfAClientThatExitsAreOverAtOnce) {
  Client client(*loop_);
  pause({client.ref()}, 1h);
  EXPECT_TRUE(until([&] { return client.stopped(); }));
  client.send(SIGKILL);
  EXPECT_TRUE(until([&] { return idle_; }));
  EXPECT_TRUE(pauses_.clients().empty());
}

TEST_F(ClientPausesTest, OfOneThatIsPausedAlreadyEndWithTheFirst) {
  Client client(*loop_);
  pause({client.ref()}, 1s);
  EXPECT_TRUE(until([&] { return client.stopped(); }));
  pause({client.ref()}, 1h);  // as by the preStop program after the pod watch
  EXPECT_EQ(changes_, 1) << "one descriptor";
  client.send(SIGTERM);
  EXPECT_TRUE(until([&] { return idle_; }));
  EXPECT_TRUE(until([&] { return client.exited(); }));
}

TEST_F(ClientPausesTest, AnswerAlsoWithoutAClient) {
  pause({}, 1h);
  EXPECT_FALSE(idle_) << "in a callback of its own";
  EXPECT_TRUE(until([&] { return idle_; }));
}

TEST_F(ClientPausesTest, EndAtOnceForThoseThatAreToContinue) {
  Client client(*loop_), other(*loop_);
  pause({client.ref(), other.ref()}, 1h);
  EXPECT_TRUE(until([&] { return client.stopped() && other.stopped(); }));
  pauses_.resume({client.ref()});
  EXPECT_TRUE(until([&] { return client.runs(); }));
  EXPECT_TRUE(other.stopped());
  EXPECT_EQ(pauses_.clients(), std::vector{other.ref()});
}

// Promise: stop: Paused clients whose status takes long to read occupy a small part of the time of `tranche mps`.
TEST_F(ClientPausesTest, TakeASmallPartOfTheTimeWhateverAReadCosts) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may set supplementary groups";
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<ProcessRef> all;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(*loop_, 20'000));
    all.push_back(clients.back()->ref());
  }
  const auto begun = loop_->now();
  const CpuBudget used(Duration::max());
  pause(all, 1ms);
  for (const auto end = begun + 3s; loop_->now() < end;) {
    pauses_.begin({kOwner, all, SIGTERM, 1ms}, {});  // each request renews the wait for the signal
    wait(100ms);
  }
  EXPECT_EQ(pauses_.clients().size(), all.size());
  EXPECT_LT(used.used(), (loop_->now() - begun) / 8);
}

class PausedEndings : public ClientPausesTest {
 protected:
  std::string file() const { return read_file(scratch_ / mps::kEndingFile).value_or(""); }
  Scratch scratch_;
  std::unique_ptr<Endings> endings_ = std::make_unique<Endings>(*loop_, *Dir::open(scratch_.path()));
};

TEST_F(PausedEndings, ATerminationTakesAPausedClientOver) {
  Client client(*loop_);
  endings_->pause({kOwner, {client.ref()}, SIGTERM, 50ms}, [] {});
  EXPECT_TRUE(until([&] { return client.stopped(); }));
  std::optional<std::vector<mps::Terminated>> outcomes;
  endings_->begin({.patience = 2s}, {{client.ref()}}, [&](const auto& all) { outcomes = all; });
  EXPECT_NE(file().find("end"), std::string::npos);
  client.send(SIGTERM);
  EXPECT_TRUE(until([&] { return outcomes.has_value(); }));
  ASSERT_EQ(outcomes->size(), 1u);
  EXPECT_EQ(outcomes->front().outcome, mps::TerminateOutcome::kTerminated);
  EXPECT_GE(outcomes->front().waited, 2s) << "nothing has continued it: " << outcomes->front().note;
  EXPECT_EQ(file(), "");
}

TEST_F(PausedEndings, ATerminationOfOthersLeavesThoseThatAreHeld) {
  Client client(*loop_), other(*loop_);
  endings_->pause({kOwner, {client.ref(), other.ref()}, 0, 1h}, {});
  std::optional<std::vector<mps::Terminated>> outcomes;
  endings_->begin({.patience = 50ms}, {{client.ref()}}, [&](const auto& all) { outcomes = all; });
  EXPECT_TRUE(until([&] { return outcomes.has_value(); }));
  EXPECT_TRUE(other.stopped());
  EXPECT_NE(file().find("continue"), std::string::npos);
  endings_->resume({client.ref(), other.ref()});
  EXPECT_TRUE(until([&] { return other.runs(); }));
  EXPECT_EQ(file(), "");
}

// Promise: stop: A client that was paused when `tranche mps` was killed continues at the next start.
TEST_F(PausedEndings, APauseThatAKilledRunBeganEndsAtTheNextStart) {
  Client client(*loop_);
  endings_->pause({kOwner, {client.ref()}, SIGTERM, 1h}, [] {});
  EXPECT_NE(file().find("continue"), std::string::npos);
  EXPECT_TRUE(until([&] { return client.stopped(); }));
  endings_.reset();
  EXPECT_TRUE(client.stopped());
  endings_ = std::make_unique<Endings>(*loop_, *Dir::open(scratch_.path()));
  bool finished = false;
  endings_->finish_left({}, [&](const auto&) { finished = true; });
  EXPECT_TRUE(until([&] { return finished && client.runs(); }));
  EXPECT_EQ(file(), "");
}

}  // namespace
}  // namespace tranche::host
