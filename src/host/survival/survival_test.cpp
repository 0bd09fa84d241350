#include "host/survival/survival.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "host/files/scratch.h"
#include "host/process/process.h"

namespace tranche::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// A /proc of our own: processes with a parent, a place in namespaces and a cgroup.
class Survives : public ::testing::Test {
 protected:
  void process(pid_t pid, pid_t parent, const std::string& nspid, const std::string& cgroup,
               const std::string& caught = "0000000000000000") {
    const auto dir = *Dir::create(proc_ / fmt::format("{}/task/{}", pid, pid));
    const auto own = *Dir::open(proc_ / std::to_string(pid));
    const std::string status = fmt::format(
        "State:\tS (sleeping)\nPPid:\t{}\nTracerPid:\t0\nNSpid:\t{}\nThreads:\t1\nSigBlk:\t0000000000000000\n"
        "SigIgn:\t0000000000000000\nSigCgt:\t{}\n",
        parent, nspid, caught);
    ASSERT_TRUE(own.write_atomically("status", status));
    ASSERT_TRUE(own.write_atomically("cgroup", "0::" + cgroup + "\n"));
    ASSERT_TRUE(dir.write_atomically("status", status));
    ASSERT_TRUE(dir.write_atomically("syscall", "61 0x1 0x2 0x0 0x0 0x0 0x0 0x7f 0x7f\n"));
  }
  stopping::Fate fate(pid_t client, int signal = 15) { return client_fate(client, signal, proc_.path()); }
  std::vector<pid_t> above(pid_t client) { return ancestors_in_container(client, proc_.path()); }
  Scratch proc_;
};

constexpr const char* kHandlesTerm = "0000000000004000";

TEST_F(Survives, AClientsAncestorsEndWithTheFirstProcessOfItsContainer) {
  process(50, 1, "50", "/shim");
  process(100, 50, "100\t1", "/a");
  process(101, 100, "101\t2", "/a");
  process(102, 101, "102\t3", "/a/nested");
  EXPECT_THAT(above(102), ElementsAre(101, 100));
  EXPECT_THAT(above(100), IsEmpty());
}

TEST_F(Survives, InTheHostsNamespaceTheControlGroupIsTheContainer) {
  process(50, 1, "50", "/shim");
  process(100, 50, "100", "/a");
  process(101, 100, "101", "/a");
  EXPECT_THAT(above(101), ElementsAre(100));
  EXPECT_FALSE(fate(101).keeps_grace) << "the first process dies of the signal, and the runtime kills the others";
  process(101, 100, "101", "/a", kHandlesTerm);
  EXPECT_FALSE(fate(101).keeps_grace) << fate(101).why;
  process(100, 50, "100", "/a", kHandlesTerm);
  EXPECT_TRUE(fate(101).keeps_grace) << fate(101).why;
}

TEST_F(Survives, ThePauseProcessOfASharedNamespaceIsNotAnAncestor) {
  process(100, 50, "100\t1", "/pause");
  process(101, 100, "101\t7", "/a");
  EXPECT_THAT(above(101), IsEmpty());
  EXPECT_FALSE(fate(101).keeps_grace);
}

TEST_F(Survives, PidOneWithoutAHandlerAndAClientThatHandlesTheSignalKeepTheirGrace) {
  process(100, 50, "100\t1", "/a");
  EXPECT_TRUE(fate(100).keeps_grace);
  process(200, 50, "200\t1", "/a", kHandlesTerm);
  process(201, 200, "201\t2", "/a");
  EXPECT_FALSE(fate(201).keeps_grace) << "the first process may hand the signal on";
  process(201, 200, "201\t2", "/a", kHandlesTerm);
  EXPECT_TRUE(fate(201).keeps_grace);
}

#if defined(__x86_64__)
TEST_F(Survives, AClientBelowAShellWithoutATrapKeepsItsGrace) {
  process(100, 50, "100\t1", "/a", "0000000000010002");
  process(101, 100, "101\t2", "/a");
  EXPECT_TRUE(fate(101).keeps_grace) << fate(101).why;
  process(200, 50, "200\t1", "/a", "0000000000000004");  // SIGQUIT
  process(201, 200, "201\t2", "/a");
  EXPECT_TRUE(fate(201, 15).keeps_grace);
  EXPECT_FALSE(fate(201, 0).keeps_grace) << "an unknown stop signal may be SIGQUIT";
}
#endif

TEST_F(Survives, WhatCannotBeReadIsDoubt) {
  EXPECT_FALSE(fate(4).keeps_grace);
}

#if defined(__x86_64__)
TEST(SurvivesForReal, PidOneOfANamespaceThatSleepsAndNotOneThatHandlesTheSignal) {
  if (::geteuid() != 0) GTEST_SKIP() << "making a pid namespace needs root";
  auto loop = *Loop::open();
  // The verdict about the process that it becomes, as soon as it says `wanted`: the script needs a moment to get where
  // it is going.
  const auto judge = [&loop](const std::string& script, const std::string& wanted) {
    stopping::Fate verdict;
    auto process = Process::start(
        *loop,
        {.argv = {"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", script},
         .env = {{"PATH", "/usr/bin:/bin"}},
         .kill_on_drop = true},
        [](const std::string&) {}, [&loop](ExitNote) { loop->stop(); });
    if (!process) return stopping::Fate{false, to_string(process.error())};
    int looks = 0;
    std::function<void()> look = [&] {
      const auto children = read_file(fmt::format("/proc/{0}/task/{0}/children", (*process)->ref().pid));
      const pid_t child[] = {std::atoi(children.value_or("0").c_str())};
      verdict = client_fate(child[0], 15);
      if (verdict.why.find(wanted) != std::string::npos || ++looks == 200) return loop->stop();
      loop->after(20ms, look);
    };
    loop->after(20ms, look);
    loop->run();
    return verdict;
  };
  const auto plain = judge("exec sleep 100", "PID 1");
  EXPECT_TRUE(plain.keeps_grace) << plain.why;
  const auto handler = judge("trap 'exit 0' TERM; sleep 100 & wait", "handles");
  EXPECT_TRUE(handler.keeps_grace) << handler.why;
}
#endif

}  // namespace
}  // namespace tranche::host
