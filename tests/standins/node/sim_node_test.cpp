#include "sim_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include "state_file.h"
#include "test_node.h"

namespace tranche::sim {
namespace {

using testing::HasSubstr;

constexpr const char* kFourH200 = "gpus: {profile: H200, count: 4}\ntopology: vm\n";

TEST(SimNode, SaysWhereTheYamlIsWrongAndWhatToWrite) {
  const TestNode place("gpus:\n  - profile: H20\n");
  const auto node = Node::open(place.dir());
  ASSERT_FALSE(node);
  EXPECT_THAT(node.error(), HasSubstr("node.yaml:2:14"));
  EXPECT_THAT(node.error(), HasSubstr("did you mean H200?"));
  const TestNode typo("gpu: {profile: H200}\n");
  EXPECT_THAT(Node::open(typo.dir()).error(), HasSubstr("did you mean gpus?"));
  const TestNode none("driver: 580\n");
  EXPECT_THAT(Node::open(none.dir()).error(), HasSubstr("\"gpus\" is missing"));
  const TestNode mig("gpus:\n  - {profile: H200, mig: [4g.71gb, 4g.71gb]}\n");
  EXPECT_THAT(Node::open(mig.dir()).error(), HasSubstr("no room for 4g.71gb"));
  EXPECT_THAT(Node::open("/nonexistent").error(), HasSubstr("sim-node init"));
}

TEST(SimNode, SurvivesADeathWhileTheLockIsHeld) {
  const TestNode place(kFourH200);
  const auto node = place.open();
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = in_child([&] {
    const auto file = StateFile::open(place.dir(), [](State&) { return std::expected<void, std::string>{}; });
    const Locked held((*file)->state());
    if (write(pipe_ends[1], "x", 1) != 1) return 1;
    for (;;) pause();
  });
  char ready = 0;
  ASSERT_EQ(read(pipe_ends[0], &ready, 1), 1);
  kill(child, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(wait_status(child)));
  EXPECT_TRUE(node->attach(getpid(), 0, ProcessKind::kCompute, 0));  // would block indefinitely on a plain mutex
  EXPECT_EQ(node->processes(0).size(), 1u);
  node->detach(getpid(), 0);
  EXPECT_TRUE(node->processes(0).empty());
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(SimNode, AProcessInAPidNamespaceOfItsOwnLeavesTheRowsOfOthersAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a PID namespace";
  const TestNode place(kFourH200);
  const auto node = place.open();
  ASSERT_TRUE(node->attach(getpid(), 0, ProcessKind::kCompute, 0));
  const pid_t child = in_child([&] {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return 77;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;  // private to this process
    const pid_t inner = fork();
    if (inner == 0) {
      if (mount("proc", "/proc", "proc", 0, nullptr) != 0) _exit(77);
      _exit(place.open()->processes(0).size() == 1 ? 0 : 1);
    }
    int status = 0;
    return waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
  });
  const int status = wait_status(child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no namespaces here";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(node->processes(0).size(), 1u);
}

TEST(SimNode, HandsOutNoMoreMemoryThanTheGpuHas) {
  const TestNode place("gpus: {profile: T4, count: 1}\n");
  const auto node = place.open();
  EXPECT_FALSE(node->charge(getpid(), 0, 1)) << "not attached yet";
  ASSERT_TRUE(node->attach(getpid(), 0, ProcessKind::kCompute, 0));
  const auto total = static_cast<std::int64_t>(node->gpus()[0].memory_total);
  const auto free = total - static_cast<std::int64_t>(node->memory_used(0));
  EXPECT_FALSE(node->charge(getpid(), 0, free + 1));
  EXPECT_TRUE(node->charge(getpid(), 0, free));
  EXPECT_FALSE(node->charge(getpid(), 0, 1));
  EXPECT_TRUE(node->charge(getpid(), 0, -free));
  EXPECT_EQ(node->memory_used(0), node->gpus()[0].memory_reserved);
  EXPECT_FALSE(node->attach(getpid(), 1, ProcessKind::kCompute, 0)) << "there is no such GPU";
}

TEST(SimNode, OneOfManyFirstOpenersMakesTheState) {
  const TestNode place(kFourH200);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(in_child([&] {
      const auto node = Node::open(place.dir());
      if (!node) return 1;
      (*node)->raise({.gpu = 0, .kind = EventKind::kXid});
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_status(child), 0);
  EXPECT_EQ(place.open()->newest_event(), 8u);
}

}  // namespace
}  // namespace tranche::sim
