// Processes whose first thread has exited, as real ones.
#include "os/process/threads.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "headless_process.h"
#include "os/files/files.h"
#include "os/files/scratch_fixture.h"
#include "os/loop/loop.h"
#include "os/process/process.h"
#include "run_until.h"

namespace tranche::os {
namespace {

using ::testing::ElementsAre;

bool eventually(const std::function<bool()>& condition) {
  const auto loop = Loop::open();
  return loop && run_until(**loop, condition, std::chrono::seconds(60));
}

// A child with or without its first thread, and without any.
class Threads : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  template <class Child>
  pid_t start(Child child) {
    const pid_t pid = ::fork();
    if (pid == 0) child();
    children_.push_back(pid);
    return pid;
  }
  pid_t headless() {
    const pid_t pid = start([] {
      test::exit_first_thread([] {
        while (true) ::pause();
      });
    });
    EXPECT_TRUE(eventually([pid] {
      return read_file(fmt::format("/proc/{}/status", pid)).value_or("").find("State:\tZ") != std::string::npos;
    }));
    return pid;
  }
  static std::vector<std::string> looked_at(pid_t pid, bool* living, const std::string& proc = "/proc") {
    std::vector<std::string> folders;
    *living = look_at_living_thread(
        pid,
        [&folders](const std::string& folder, pid_t) {
          folders.push_back(folder);
          return false;
        },
        proc);
    return folders;
  }
  std::vector<pid_t> children_;
};

TEST_F(Threads, TheFirstIsLookedAtWhileItLives) {
  bool living = false;
  EXPECT_THAT(looked_at(::getpid(), &living), ElementsAre(fmt::format("/proc/{}", ::getpid())));
  EXPECT_TRUE(living);
}

TEST_F(Threads, AnotherIsLookedAtWhenTheFirstHasExited) {
  const pid_t pid = headless();
  bool living = false;
  const auto folders = looked_at(pid, &living);
  EXPECT_TRUE(living);
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_THAT(folders[1], testing::HasSubstr(fmt::format("/proc/{}/task/", pid)));
  EXPECT_FALSE(read_file(fmt::format("/proc/{}/mountinfo", pid)));
  EXPECT_TRUE(read_file(folders[1] + "/mountinfo"));
}

TEST_F(Threads, AProcessThatHasExitedHasNoLivingOne) {
  const pid_t pid = start([] { ::_exit(0); });
  ASSERT_TRUE(eventually([pid] {
    const auto sight = look_at_process(pid);
    return sight && sight->state == 'Z';
  }));
  bool living = true;
  EXPECT_THAT(looked_at(pid, &living), ElementsAre(fmt::format("/proc/{}", pid)));
  EXPECT_FALSE(living);
}

TEST_F(Threads, WhatSufficesEndsTheSearch) {
  const pid_t pid = headless();
  int looks = 0;
  EXPECT_TRUE(look_at_living_thread(pid, [&looks](const std::string&, pid_t) { return ++looks == 1; }));
  EXPECT_EQ(looks, 1);
}

// A tenant chooses how many threads it has, and can hold them in their exit.
TEST_F(Threads, ABoundedNumberIsTried) {
  const Scratch proc;
  const std::string exiting = " (x) S 1 1 1 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 1 0 100\n";
  for (int thread = 0; thread < 1000; ++thread) {
    const auto task = Dir::create(proc / fmt::format("7/task/{}", 7 + thread));
    ASSERT_TRUE(task && task->write_atomically("stat", std::to_string(7 + thread) + exiting));
  }
  bool living = true;
  looked_at(7, &living, proc.path());
  EXPECT_FALSE(living);
}

TEST_F(Threads, TheStateOfAProcessIsThatOfALivingThread) {
  const pid_t pid = headless();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  EXPECT_TRUE(eventually([pid] {
    const auto sight = look_at_process(pid);
    return sight && sight->state == 'T';
  }));
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  EXPECT_TRUE(eventually([pid] {
    const auto sight = look_at_process(pid);
    return sight && sight->state == 'S';
  }));
}

TEST_F(Threads, ACapabilityIsReadFromTheKernel) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has capabilities";
  EXPECT_TRUE(has_effective_capability(::getpid(), CAP_SYS_ADMIN));
  const pid_t user = start([] {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    while (true) ::pause();
  });
  ASSERT_TRUE(eventually([user] {
    const auto sight = look_at_process(user);
    return sight && sight->state == 'T';
  }));
  EXPECT_FALSE(has_effective_capability(user, CAP_SYS_ADMIN));
  EXPECT_FALSE(has_effective_capability(4'194'300, CAP_SYS_ADMIN)) << "no such process";
}

TEST(NamespacedPids, AreReadFromTheKernelsTexts) {
  EXPECT_THAT(parse_namespaced_pids("Name:\tpython3\nNStgid:\t4711\t1\nNSpid:\t4711\t1\nNSpgid:\t4711\t1\n"),
              ElementsAre(4711, 1));
  EXPECT_THAT(parse_namespaced_pids("pos:\t0\nflags:\t02\nPid:\t9\nNSpid:\t9\n"), ElementsAre(9));
  for (const char* text : {"Name:\tNSpid: 5 1\n", "NSpid:\t-1\n", "NSpid:\t0\n", "NSpid:\t5000000\n", ""})
    EXPECT_THAT(parse_namespaced_pids(text), ::testing::IsEmpty()) << text;
}

TEST_F(Threads, TheFirstProcessOfANamespaceIsKnownByItsInnermostPid) {
  EXPECT_THAT(namespaced_pids(::getpid()), ElementsAre(::getpid()));
  EXPECT_FALSE(is_first_of_namespace(::getpid()));
  EXPECT_FALSE(is_first_of_namespace(4'194'300)) << "no such process";
  int pids[2];
  ASSERT_EQ(::pipe(pids), 0);
  start([&] {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(1);
    const pid_t first = ::fork();
    if (first == 0)
      while (true) ::pause();
    if (::write(pids[1], &first, sizeof first) != sizeof first) ::_exit(1);
    while (true) ::pause();
  });
  ::close(pids[1]);
  pid_t first = 0;
  if (::read(pids[0], &first, sizeof first) == 0) GTEST_SKIP() << "a pid namespace needs root";
  ::close(pids[0]);
  children_.push_back(first);
  EXPECT_THAT(namespaced_pids(first), ElementsAre(first, 1));
  EXPECT_TRUE(is_first_of_namespace(first));
}

}  // namespace
}  // namespace tranche::os
