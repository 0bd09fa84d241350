#include "termination/live/survival.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "os/files/scratch.h"
#include "os/process/process.h"

namespace tranche::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// A simulated /proc: processes with a parent, namespaces and a cgroup.
class Survives : public ::testing::Test {
 protected:
  void process(pid_t pid, pid_t parent, const std::string& nspid, const std::string& cgroup,
               const std::string& caught = "0000000000000000", const std::string& blocked = "0000000000000000",
               int threads = 1) {
    const auto own = *Dir::create(proc_ / std::to_string(pid));
    const std::string status = fmt::format(
        "State:\tS (sleeping)\nPPid:\t{}\nTracerPid:\t0\nNSpid:\t{}\nThreads:\t{}\nSigBlk:\t{}\n"
        "SigIgn:\t0000000000000000\nSigCgt:\t{}\n",
        parent, nspid, threads, blocked, caught);
    ASSERT_TRUE(own.write_atomically("status", status));
    ASSERT_TRUE(own.write_atomically("stat", fmt::format("{} (x) S {} 1 1 0 -1 4194304\n", pid, parent)));
    ASSERT_TRUE(own.write_atomically("cgroup", "0::" + cgroup + "\n"));
    const auto task = *Dir::create(proc_ / fmt::format("{0}/task/{0}", pid));
    ASSERT_TRUE(task.write_atomically("status", status));
    ASSERT_TRUE(task.write_atomically("syscall", "61 0x1 0x2 0x0 0x0 0x0 0x0 0x7f 0x7f\n"));
    // The others equal the first.
    for (int thread = 1; thread < threads; ++thread)
      std::filesystem::create_symlink(std::to_string(pid), proc_ / fmt::format("{}/task/{}", pid, pid + thread));
  }
  stopping::Fate fate(pid_t client, int signal = 15) { return client_fates({client}, signal, proc_.path())[0]; }
  std::vector<pid_t> above(pid_t client) { return Ancestors(proc_.path()).of(client).value(); }
  Scratch proc_;
};

constexpr const char* kNoSignal = "0000000000000000";
constexpr const char* kHandlesTerm = "0000000000004000";

TEST_F(Survives, AClientsAncestorsEndWithTheFirstProcessOfItsContainer) {
  process(50, 1, "50", "/shim");
  process(100, 50, "100\t1", "/a");
  process(101, 100, "101\t2", "/a");
  process(102, 101, "102\t3", "/a/nested");
  EXPECT_THAT(above(102), ElementsAre(101, 100));
  EXPECT_THAT(above(100), IsEmpty());
}

// As under cgroup v1, which moves a thread that exits into the root control group.
TEST_F(Survives, AClientWithoutItsFirstThreadHasTheSameAncestors) {
  process(50, 1, "50", "/shim");
  process(100, 50, "100", "/a");
  process(101, 100, "101", "/");
  const auto own = *Dir::open(proc_ / "101");
  ASSERT_TRUE(own.write_atomically("stat", "101 (x) Z 100 1 1 0 -1 4194308\n"));
  const auto task = *Dir::create(proc_ / "101/task/102");
  ASSERT_TRUE(task.write_atomically("stat", "102 (x) S 100 1 1 0 -1 4194304\n"));
  ASSERT_TRUE(task.write_atomically("cgroup", "0::/a\n"));
  EXPECT_THAT(above(101), ElementsAre(100));
}

// Promise: stop: The processes above a tenant's clients that one request looks at are bounded.
TEST_F(Survives, ARequestLooksAtNoMoreProcessesThanItMay) {
  process(50, 1, "50", "/shim");
  process(100, 50, "100\t1", "/a");
  for (int depth = 1; depth <= 20; ++depth)
    process(100 + depth, 99 + depth, fmt::format("{}\t{}", 100 + depth, depth + 1), "/a");
  process(200, 100, "200\t90", "/a");
  Ancestors all(proc_.path(), 22);
  ASSERT_TRUE(all.of(120));
  EXPECT_EQ(all.of(120)->size(), 20u);
  EXPECT_TRUE(all.of(110)) << "what was seen already costs nothing";
  Ancestors few(proc_.path(), 20);
  EXPECT_FALSE(few.of(120));
  EXPECT_FALSE(few.of(119));
  EXPECT_FALSE(few.of(200));
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

// Promise: stop: Clients to which the signal comes, and that handle it, may end in their handler.
TEST_F(Survives, OnlyThoseThatTheSignalReachesMayEndInTheirHandler) {
  process(100, 50, "100\t1", "/a");
  EXPECT_FALSE(fate(100).reacts) << "PID 1 without a handler";
  process(100, 50, "100\t1", "/a", kHandlesTerm);
  EXPECT_TRUE(fate(100).reacts);
  process(200, 50, "200\t1", "/a", kHandlesTerm);
  process(201, 200, "201\t2", "/a", kHandlesTerm);
  EXPECT_TRUE(fate(201).reacts) << "a launcher hands the signal on, or kills it";
  EXPECT_TRUE(fate(201).keeps_grace);
  process(201, 200, "201\t2", "/a");
  EXPECT_FALSE(fate(201).reacts) << "the signal kills it";
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

TEST_F(Survives, AClientThatHandlesTheSignalIsKnownWithoutItsThreads) {
  process(100, 50, "100\t1", "/a", kHandlesTerm);
  process(2000, 100, "2000\t2", "/a", kHandlesTerm, kNoSignal, 1025);
  EXPECT_TRUE(fate(2000).keeps_grace) << fate(2000).why;
}

TEST_F(Survives, TheThreadsThatARequestReadsAreBoundedForAllItsClientsTogether) {
  process(100, 50, "100\t1", "/a", kHandlesTerm);
  for (const pid_t client : {2000, 3000})
    process(client, 100, fmt::format("{}\t2", client), "/a", kNoSignal, kHandlesTerm, 300);
  process(4000, 100, "4000\t2", "/a", kHandlesTerm, kNoSignal, 300);
  EXPECT_TRUE(fate(2000).keeps_grace);
  EXPECT_TRUE(fate(3000).keeps_grace) << "each request has the whole bound";
  const auto fates = client_fates({2000, 3000, 4000}, 15, proc_.path());
  EXPECT_TRUE(fates[0].keeps_grace) << fates[0].why;
  EXPECT_FALSE(fates[1].keeps_grace);
  EXPECT_THAT(fates[1].why, HasSubstr("too many threads"));
  EXPECT_TRUE(fates[2].keeps_grace) << "it needs none: " << fates[2].why;
}

TEST_F(Survives, AThreadThatDoesNotBlockTheSignalEndsTheReading) {
  process(100, 50, "100\t1", "/a", kHandlesTerm);
  for (const pid_t client : {2000, 3000}) {
    process(client, 100, fmt::format("{}\t2", client), "/a", kNoSignal, kNoSignal, 300);
    const auto own = *Dir::open(proc_ / std::to_string(client));
    // The first thread blocks it, the others do not.
    ASSERT_TRUE(own.write_atomically(
        "status", fmt::format("PPid:\t100\nNSpid:\t{}\t2\nThreads:\t300\nSigBlk:\t{}\n", client, kHandlesTerm)));
  }
  for (const auto& fate : client_fates({2000, 3000}, 15, proc_.path())) {
    EXPECT_FALSE(fate.keeps_grace);
    EXPECT_THAT(fate.why, HasSubstr("does not handle"));
  }
}

#if defined(__x86_64__)
TEST_F(Survives, AFirstProcessIsReadOnceForAllItsClients) {
  process(1000, 50, "1000\t1", "/a", kNoSignal, kNoSignal, 200);
  process(2000, 1000, "2000\t2", "/a");
  process(2001, 1000, "2001\t3", "/a");
  for (const auto& fate : client_fates({2000, 2001}, 15, proc_.path())) EXPECT_TRUE(fate.keeps_grace) << fate.why;
}
#endif

TEST_F(Survives, AFirstProcessWithTooManyThreadsIsNotProvenToTakeNoNotice) {
  process(1000, 50, "1000\t1", "/a", kNoSignal, kNoSignal, 257);
  process(2000, 1000, "2000\t2", "/a");
  process(2001, 1000, "2001\t3", "/a", kHandlesTerm);
  EXPECT_FALSE(fate(2000).keeps_grace);
  EXPECT_TRUE(fate(2001).keeps_grace) << fate(2001).why;
}

TEST_F(Survives, WhatCannotBeReadIsDoubt) {
  EXPECT_FALSE(fate(4).keeps_grace);
}

#if defined(__x86_64__)
TEST(SurvivesForReal, PidOneOfANamespaceThatSleepsAndNotOneThatHandlesTheSignal) {
  if (::geteuid() != 0) GTEST_SKIP() << "making a pid namespace needs root";
  auto loop = *Loop::open();
  // Repeats the verdict on the process until it is `wanted`: the script needs a moment to reach the state.
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
      verdict = client_fates({child[0]}, 15)[0];
      if (verdict.why.find(wanted) != std::string::npos || ++looks == 3000) return loop->stop();
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
