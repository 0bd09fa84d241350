#include "os/process/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "base/text.h"
#include "os/files/scratch_fixture.h"
#include "os/loop/loop_fixture.h"

namespace tranche::os {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProcessTest : public LoopFixture {
 protected:
  // Only the children of these tests run shell scripts; Command itself uses no shell.
  static Command shell(const std::string& script) {
    return {.argv = {"/bin/sh", "-c", script}, .env = {{"PATH", "/usr/bin:/bin"}}};
  }
  // Reaps the children that other tests have killed at their end.
  static void reap_all() {
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }
  std::unique_ptr<Process> start(const Command& command) {
    auto started = Process::start(*loop_, command, [this](ExitNote note) {
      ++exits_;
      note_ = note;
      loop_->stop();
    });
    EXPECT_TRUE(started) << to_string(started.error());
    return started ? std::move(*started) : nullptr;
  }
  // Of both streams, without line ends.
  static std::vector<std::string> lines(const Process& process) {
    const auto text = process.output().value_or("");
    const auto all = lines_of(text);
    return {all.begin(), all.end()};
  }
  bool prints_a_line(const Process& process) {
    return run_until(*loop_, [&] { return process.output().value_or("").ends_with('\n'); }, 60s);
  }

  ExitNote note_;
  int exits_ = 0;
};

TEST(ProgramInPath, IsTheFirstThatCanBeExecuted) {
  EXPECT_EQ(program_in_path("sh", "/nonexistent::/bin"), "/bin/sh");
  EXPECT_EQ(program_in_path("./sh", "/bin"), "./sh");
  EXPECT_EQ(program_in_path("no-such-program", "/bin"), "");
  EXPECT_EQ(program_in_path("sh", ""), "");
}

TEST_F(ProcessTest, WhatBothStreamsPrintAndTheExit) {
  const auto process = start(shell("echo one; echo two >&2; printf three; exit 3"));
  ASSERT_TRUE(process);
  EXPECT_TRUE(process->running());
  run();
  EXPECT_EQ(process->output().value(), "one\ntwo\nthree");
  EXPECT_FALSE(note_.signalled);
  EXPECT_EQ(note_.code, 3);
  EXPECT_EQ(to_string(note_), "exited with status 3");
  EXPECT_FALSE(process->running());
}

TEST_F(ProcessTest, AGrandchildThatHoldsTheOutputDoesNotDelayTheExit) {
  const auto process = start(shell("sleep 600 & echo $!; echo parent; exit 0"));
  run();
  EXPECT_EQ(exits_, 1);
  const auto printed = lines(*process);
  ASSERT_EQ(printed.size(), 2u);
  EXPECT_EQ(printed[1], "parent");
  ::kill(static_cast<pid_t>(parse_signed(printed[0]).value_or(0)), SIGKILL);
}

TEST_F(ProcessTest, ASignalIsReportedByName) {
  const auto process = start(shell("echo ready; exec sleep 600"));
  ASSERT_TRUE(prints_a_line(*process));
  ASSERT_TRUE(process->signal(SIGKILL));
  run();
  EXPECT_TRUE(note_.signalled);
  EXPECT_EQ(note_.code, SIGKILL);
  EXPECT_EQ(to_string(note_), "was killed by signal 9 (Killed)");
}

TEST_F(ProcessTest, ASignalAfterTheEndIsNothingAndReachesNobody) {
  const auto process = start(shell("exit 0"));
  run();
  // Reaped: other processes may use the pid from here on, and the handle is closed.
  EXPECT_EQ(::kill(process->ref().pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  EXPECT_TRUE(process->signal(SIGKILL));
  EXPECT_FALSE(process->running());
}

TEST_F(ProcessTest, ASignalBetweenTheEndAndItsNoticeIsNothingToo) {
  const auto process = start(shell("exit 0"));
  // Waits for the child to be a zombie without running the loop.
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(process->ref().pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(process->signal(SIGKILL));
  run();
  EXPECT_FALSE(note_.signalled);
  EXPECT_EQ(note_.code, 0);
}

TEST_F(ProcessTest, AProgramThatIsNotThereIsAnErrorOfStart) {
  reap_all();
  const auto missing = Process::start(*loop_, {.argv = {"/nonexistent/program"}}, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, Kind::kNotFound);
  EXPECT_EQ(missing.error().where, "/nonexistent/program");
  const auto no_right = Process::start(*loop_, {.argv = {"/etc/passwd"}}, {});
  ASSERT_FALSE(no_right);
  EXPECT_EQ(no_right.error().kind, Kind::kDenied);
  EXPECT_EQ(Process::start(*loop_, {}, {}).error().kind, Kind::kInvalid);
  // Nothing is left to reap.
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ProcessTest, TheEnvironmentIsExactlyWhatWasGiven) {
  const auto process = start({.argv = {"/usr/bin/env"}, .env = {{"A", "1 2"}, {"B", ""}}});
  run();
  EXPECT_THAT(lines(*process), ElementsAre("A=1 2", "B="));
  const auto bad = Process::start(*loop_, {.argv = {"/usr/bin/env"}, .env = {{"A=B", "1"}}}, {});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().kind, Kind::kInvalid);
}

TEST_F(ProcessTest, ArgumentsAreNotAShells) {
  const auto process = start({.argv = {"/bin/echo", "$HOME; `id` * \"x\""}});
  run();
  EXPECT_THAT(lines(*process), ElementsAre("$HOME; `id` * \"x\""));
}

TEST_F(ProcessTest, TheChildInheritsNoDescriptorOfOurs) {
  const int leaky = ::open("/dev/null", O_RDONLY);  // on purpose without close-on-exec
  ASSERT_GE(leaky, 0);
  const auto process = start(shell("ls /proc/$$/fd"));
  run();
  ::close(leaky);
  EXPECT_THAT(lines(*process), ElementsAre("0", "1", "2"));
}

TEST_F(ProcessTest, GivenDescriptorsBecomeTheChilds) {
  const Fd in(::memfd_create("in", MFD_CLOEXEC));
  const Fd out(::memfd_create("out", MFD_CLOEXEC));
  const Fd kept(::memfd_create("kept", MFD_CLOEXEC));
  ASSERT_EQ(::pwrite(in.get(), "asked\n", 6, 0), 6);
  auto command = shell("cat; ls /proc/$$/fd; echo error >&2; echo kept >&3");
  command.input = in.get();
  command.output = out.get();
  command.kept = kept.get();
  const auto process = start(command);
  run();
  const auto text_of = [](const Fd& fd) {
    char text[64] = {};
    return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(0, ::pread(fd.get(), text, sizeof text, 0))));
  };
  EXPECT_EQ(text_of(out), "asked\n0\n1\n2\n3\nerror\n");
  EXPECT_EQ(text_of(kept), "kept\n");
  EXPECT_EQ(process->output().value(), "");
  EXPECT_EQ(note_.code, 0);
}

TEST_F(ProcessTest, StepsBeforeExecRunInOrderAndTheFirstThatFailsIsNamed) {
  reap_all();
  auto command = shell("pwd");
  command.before_exec = {{"cannot go to proc", "", [] { return ::chdir("/proc") == 0; }},
                         {"cannot go below it", "", [] { return ::chdir("self/task") == 0; }}};
  const auto process = start(command);
  run();
  EXPECT_THAT(lines(*process), ElementsAre(HasSubstr("/task")));
  command.before_exec.insert(command.before_exec.begin() + 1,
                             {"cannot go there", "/nonexistent", [] { return ::chdir("/nonexistent") == 0; }});
  const auto failed = Process::start(*loop_, command, {});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, Kind::kNotFound);
  EXPECT_EQ(failed.error().where, "/nonexistent");
  EXPECT_THAT(failed.error().what, HasSubstr("cannot go there"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "nothing is left to reap";
}

TEST_F(ProcessTest, TheChildHasStandardSignalsAndItsOwnGroup) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto old = ::signal(SIGPIPE, SIG_IGN);
  // grep reads its own state: a shell in between could change it.
  const auto process = start({.argv = {"/bin/grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"}});
  ASSERT_TRUE(process);
  EXPECT_NE(::getpgid(process->ref().pid), ::getpgrp());
  run();
  ::signal(SIGPIPE, old);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_THAT(lines(*process), ElementsAre(HasSubstr("0000000000000000"), HasSubstr("0000000000000000")));
}

TEST_F(ProcessTest, WithoutAnInputTheChildReadsAnEnd) {
  const auto process = start({.argv = {"/bin/cat"}});
  run();
  EXPECT_EQ(note_.code, 0);
}

// Until it is reaped.
TEST_F(ProcessTest, AnExitedChildKeepsItsPid) {
  pid_t pid = 0;
  {
    auto child = ExitedChild::start();
    ASSERT_TRUE(child);
    pid = child->pid();
    const ExitedChild moved = *std::move(child);
    EXPECT_EQ(moved.pid(), pid);
    EXPECT_TRUE(process_ref(pid));
  }
  EXPECT_FALSE(process_ref(pid));
}

TEST_F(ProcessTest, DroppingKillsOnlyWhenAsked) {
  const Scratch scratch;
  for (const bool kill : {true, false}) {
    auto command = shell(kill ? "echo ready; exec sleep 600"
                              : "sleep 60 & trap \"kill $!; touch " + scratch / "lived; exit\" TERM; echo ready; wait");
    command.kill_on_drop = kill;
    auto process = start(command);
    ASSERT_TRUE(prints_a_line(*process));
    auto witness = Process::adopt(*loop_, process->ref(), [this](ExitNote) { loop_->stop(); });
    ASSERT_TRUE(witness) << to_string(witness.error());
    process.reset();
    if (!kill) {
      // A SIGKILL from the drop would take effect before this signal.
      EXPECT_TRUE((*witness)->running());
      ASSERT_TRUE((*witness)->signal(SIGTERM));
    }
    run();
    EXPECT_FALSE((*witness)->running());
    EXPECT_EQ(std::filesystem::exists(scratch / "lived"), !kill);
  }
  EXPECT_EQ(exits_, 0);  // a dropped Process reports nothing any more
}

TEST_F(ProcessTest, AChildThatOutlivesItsObjectIsStillReaped) {
  auto process = start(shell("echo ready; exec sleep 600"));
  ASSERT_TRUE(prints_a_line(*process));
  const auto ref = process->ref();
  process.reset();
  ASSERT_EQ(::kill(ref.pid, SIGKILL), 0);  // our child and not reaped: the pid cannot be another process's
  bool reaped = false;
  std::function<void()> look = [&] {
    reaped = ::kill(ref.pid, 0) != 0 && errno == ESRCH;
    if (reaped) return loop_->stop();
    loop_->after(1ms, look);
  };
  look();
  run();
  EXPECT_TRUE(reaped);
}

// Its parent reaps it, so nothing has to be held until its exit: a tenant's process may run for any time.
TEST_F(ProcessTest, ADroppedProcessThatIsNotOursHoldsNoDescriptor) {
  const auto parent = start(shell("sleep 600 & echo $!; wait"));
  ASSERT_TRUE(prints_a_line(*parent));
  const auto ref = process_ref(std::stoi(lines(*parent)[0]));
  ASSERT_TRUE(ref);
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  for (int i = 0; i < 8; ++i) {
    auto adopted = Process::adopt(*loop_, *ref, [](ExitNote) { FAIL() << "dropped before"; });
    ASSERT_TRUE(adopted);
    EXPECT_EQ(descriptors(), before + 1);
  }
  EXPECT_EQ(descriptors(), before);
  ::kill(ref->pid, SIGKILL);
  run();
}

TEST_F(ProcessTest, MayBeDroppedInsideItsCallback) {
  std::unique_ptr<Process> process;
  auto started = Process::start(*loop_, shell("exit 0"), [&](ExitNote) {
    process.reset();
    loop_->stop();
  });
  ASSERT_TRUE(started);
  process = std::move(*started);
  run();
  EXPECT_EQ(process, nullptr);
}

TEST_F(ProcessTest, AdoptingReportsTheEndOfOurOwnChildWithItsStatus) {
  char shell_name[] = "/bin/sh", option[] = "-c", script[] = "exit 7";
  char* argv[] = {shell_name, option, script, nullptr};
  char* env[] = {nullptr};
  pid_t pid = 0;
  ASSERT_EQ(::posix_spawn(&pid, "/bin/sh", nullptr, nullptr, argv, env), 0);
  const auto ref = process_ref(pid);
  ASSERT_TRUE(ref);
  const auto adopted = Process::adopt(*loop_, *ref, [this](ExitNote note) {
    note_ = note;
    loop_->stop();
  });
  ASSERT_TRUE(adopted);
  run();
  EXPECT_EQ(note_.code, 7);
}

TEST_F(ProcessTest, AdoptingAForeignProcessReportsItsEndWithoutAStatus) {
  // The shell's child is only a grandchild of ours.
  const auto parent = start(shell("sleep 600 & echo $!; exec sleep 600"));
  ExitNote ended{.signalled = true, .code = 99};
  ASSERT_TRUE(prints_a_line(*parent));
  const auto ref = process_ref(static_cast<pid_t>(parse_signed(lines(*parent)[0]).value_or(0)));
  ASSERT_TRUE(ref);
  auto adopted = Process::adopt(*loop_, *ref, [&](ExitNote note) {
    ended = note;
    loop_->stop();
  });
  ASSERT_TRUE(adopted) << to_string(adopted.error());
  EXPECT_TRUE((*adopted)->running());
  ASSERT_TRUE((*adopted)->signal(SIGKILL));
  run();
  EXPECT_EQ(ended.code, -1);
  EXPECT_FALSE(ended.signalled);
  EXPECT_FALSE((*adopted)->running());
  EXPECT_TRUE((*adopted)->signal(SIGKILL));
  (void)parent->signal(SIGKILL);
  run();
}

TEST_F(ProcessTest, ARecycledPidIsNotAdopted) {
  auto ref = process_ref(::getpid());
  ASSERT_TRUE(ref);
  ref->start_ticks += 1;  // as if another process had reused our pid
  const auto adopted = Process::adopt(*loop_, *ref, {});
  ASSERT_FALSE(adopted);
  EXPECT_EQ(adopted.error().kind, Kind::kNotFound);
  EXPECT_EQ(Process::adopt(*loop_, {0, 0}, {}).error().kind, Kind::kNotFound);
  EXPECT_FALSE(process_ref(0));
}

TEST_F(ProcessTest, DiesWithTheThreadThatStartedItWhenAsked) {
  ProcessRef ref;
  auto command = shell("echo ready; exec sleep 600");
  command.die_with_parent = true;
  std::unique_ptr<Process> process;
  std::thread starter([&] {
    // Simulates the exit of the whole program: PDEATHSIG counts threads.
    process = start(command);
  });
  starter.join();
  run();
  EXPECT_TRUE(note_.signalled);
  EXPECT_EQ(note_.code, SIGKILL);
}

TEST_F(ProcessTest, ManyChildrenAtOnceAllEndAndLeaveNoDescriptor) {
  const auto open_fds = [] { return Dir::open("/proc/self/fd")->list()->size(); };
  const auto before = open_fds();
  constexpr int kChildren = 60;
  int ended = 0;
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < kChildren; ++i) {
    auto started = Process::start(*loop_, {.argv = {"/bin/echo", std::to_string(i)}}, [&, i](ExitNote note) {
      EXPECT_EQ(note.code, 0);
      EXPECT_EQ(processes[static_cast<std::size_t>(i)]->output().value(), std::to_string(i) + "\n");
      if (++ended == kChildren) loop_->stop();
    });
    ASSERT_TRUE(started);
    processes.push_back(std::move(*started));
  }
  run();
  processes.clear();
  EXPECT_EQ(ended, kChildren);
  EXPECT_EQ(open_fds(), before);
}

// The fields behind the parent.
const std::string kRest = " 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21\n";

TEST(ProcStat, TheStartTimeIsFoundBehindAnyName) {
  EXPECT_EQ(parse_stat("12 (sleep) S 1" + kRest)->ref.start_ticks, 987654u);
  EXPECT_EQ(parse_stat("12 (a) S 1 (b c) S 1" + kRest)->ref.start_ticks, 987654u);
}

TEST(ProcStat, ShortOrStrangeTextIsRefused) {
  for (const char* text : {"", "12", "12 (sleep", "12 (sleep) S 1 2 3", ")))", "12 a) S 1", ")(", "12 (a) S",
                           "1 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20"})
    EXPECT_FALSE(parse_stat(text)) << text;
  for (const char* parent : {"x", "-1"}) EXPECT_FALSE(parse_stat("12 (a) S " + (parent + kRest))) << parent;
}

TEST(ProcStat, NameAndParentAreReadWhateverTheNameIs) {
  const auto stat = parse_stat("12 (a) S 1 (b\n\xff)) S 77" + kRest);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->name,
            "a) S 1 (b?"
            "?)");
  EXPECT_EQ(stat->parent, 77);
}

}  // namespace
}  // namespace tranche::os
