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

using ::testing::HasSubstr;
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
  stopping::Survival judge(std::vector<pid_t> clients, int signal = 15) {
    return container_survives(clients, signal, proc_.path());
  }
  Scratch proc_;
};

#if defined(__x86_64__)
TEST_F(Survives, AClientLeadsToTheFirstProcessOfItsContainer) {
  process(100, 50, "100\t1", "/a");
  process(101, 100, "101\t2", "/a");
  process(102, 101, "102\t3", "/a");
  EXPECT_EQ(container_init(102, proc_.path()).value_or(0), 100);
  EXPECT_TRUE(judge({102, 101, 100}).survives);
}

TEST_F(Survives, WithoutAKnownStopSignalNoUsualOneMayEndIt) {
  process(100, 50, "100\t1", "/a", "0000000000000004");  // SIGQUIT
  EXPECT_TRUE(judge({100}).survives);
  EXPECT_FALSE(judge({100}, 0).survives);
  process(200, 50, "200\t1", "/a", "0000000000010002");  // a shell
  EXPECT_TRUE(judge({200}, 0).survives);
}
#endif

TEST_F(Survives, ThePauseProcessOfASharedNamespaceIsNotItsInit) {
  process(100, 50, "100\t1", "/pause");
  process(101, 100, "101\t7", "/a");
  EXPECT_THAT(judge({101}).why, HasSubstr("not its container's own"));
}

TEST_F(Survives, ANamespaceInsideTheContainerIsNotTakenForIt) {
  process(100, 50, "100\t1", "/a", "0000000000004000");
  process(101, 100, "101\t2\t1", "/a");
  EXPECT_EQ(container_init(101, proc_.path()).value_or(0), 100);
  EXPECT_FALSE(judge({101}).survives);
}

TEST_F(Survives, WhatCannotBeReadIsDoubt) {
  process(100, 50, "100", "/a");
  EXPECT_FALSE(judge({100}).survives) << "in the host's namespace";
  EXPECT_FALSE(judge({4}).survives) << "gone";
  EXPECT_FALSE(judge({}).survives) << "nobody";
  process(200, 50, "200\t1", "/a");
  process(300, 50, "300\t1", "/a");
  EXPECT_FALSE(judge({200, 300}).survives) << "two containers";
}

#if defined(__x86_64__)
TEST(SurvivesForReal, PidOneOfANamespaceThatSleepsAndNotOneThatHandlesTheSignal) {
  if (::geteuid() != 0) GTEST_SKIP() << "making a pid namespace needs root";
  auto loop = *Loop::open();
  // The verdict as soon as it says `wanted`: the script needs a moment to get where it is going.
  const auto judge = [&loop](const std::string& script, const std::string& wanted) {
    stopping::Survival verdict;
    auto process = Process::start(
        *loop,
        {.argv = {"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", script},
         .env = {{"PATH", "/usr/bin:/bin"}},
         .kill_on_drop = true},
        [](const std::string&) {}, [&loop](ExitNote) { loop->stop(); });
    if (!process) return stopping::Survival{false, to_string(process.error())};
    int looks = 0;
    std::function<void()> look = [&] {
      const auto children = read_file(fmt::format("/proc/{0}/task/{0}/children", (*process)->ref().pid));
      const pid_t child[] = {std::atoi(children.value_or("0").c_str())};
      verdict = container_survives(child, 15);
      if (verdict.why.find(wanted) != std::string::npos || ++looks == 200) return loop->stop();
      loop->after(20ms, look);
    };
    loop->after(20ms, look);
    loop->run();
    return verdict;
  };
  const auto plain = judge("exec sleep 100", "no handler");
  EXPECT_TRUE(plain.survives) << plain.why;
  const auto handler = judge("trap 'exit 0' TERM; sleep 100 & wait", "handles");
  EXPECT_FALSE(handler.survives) << handler.why;
  EXPECT_THAT(handler.why, HasSubstr("handles"));
}
#endif

}  // namespace
}  // namespace tranche::host
