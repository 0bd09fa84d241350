#include "sim_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include <atomic>
#include <set>
#include <thread>

#include "state_file.h"
#include "test_node.h"

namespace tranche::sim {
namespace {

using testing::HasSubstr;

constexpr const char* kFourH200 = "gpus: {profile: H200, count: 4}\ntopology: vm\n";

TEST(SimNode, HasTheGpusOfItsYaml) {
  const TestNode place(kFourH200);
  const auto node = place.open();
  const auto gpus = node->gpus();
  ASSERT_EQ(gpus.size(), 4u);
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[3].pci_bus_id, "00000000:00:09.0");
  EXPECT_EQ(gpus[0].memory_total, 150754820096u);
  EXPECT_EQ(gpus[0].sm_count, 132u);
  EXPECT_EQ(node->driver_version(), "580.159.04");
  EXPECT_TRUE(node->driver_present());
  std::set<std::string> heads;
  for (const auto& gpu : gpus) heads.insert(gpu.uuid.substr(0, 12));
  EXPECT_EQ(heads.size(), 4u);
  EXPECT_EQ(node->find_gpu("2"), 2);
  EXPECT_EQ(node->find_gpu(gpus[1].uuid), 1);
  EXPECT_EQ(node->find_gpu(gpus[3].uuid.substr(0, 12)), 3);
  EXPECT_EQ(node->find_gpu("4"), -1);
  EXPECT_EQ(node->find_gpu("GPU-"), -1);
}

TEST(SimNode, IsTheSameInEveryRunAndAnotherWithAnotherSeed) {
  const TestNode a(kFourH200), b(kFourH200), c("seed: other\ngpus: {profile: H200}\n");
  EXPECT_EQ(a.open()->gpus()[0].uuid, b.open()->gpus()[0].uuid);
  EXPECT_NE(a.open()->gpus()[0].uuid, c.open()->gpus()[0].uuid);
}

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

TEST(SimNode, LetsTwoProcessesSeeEachOther) {
  const TestNode place(kFourH200);
  const auto node = place.open();
  node->set_compute_mode(1, 3);
  const pid_t child = in_child([&] {
    const auto other = place.open();
    if (other->compute_mode(1) != 3 || !other->attach(getpid(), 0, ProcessKind::kCompute, 12)) return 1;
    if (!other->charge(getpid(), 0, 1000)) return 2;
    other->set_compute_mode(2, 2);
    other->raise({.gpu = 2, .kind = EventKind::kXid, .data = 79});
    EventRow answer;
    return other->wait_event(1, 10'000, &answer) ? 0 : 3;  // stays until the parent has checked
  });
  EventRow event;
  ASSERT_TRUE(node->wait_event(0, 10'000, &event));
  EXPECT_EQ(event.data, 79u);
  EXPECT_EQ(event.gpu, 2);
  EXPECT_EQ(node->compute_mode(2), 2);
  const auto rows = node->processes(0);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].pid, child);
  EXPECT_EQ(rows[0].bytes, 1000u);
  EXPECT_EQ(rows[0].sms, 12u);
  EXPECT_EQ(node->memory_used(0), 644939776u + 1000u);
  node->raise({.gpu = 0, .kind = EventKind::kClock});
  EXPECT_EQ(wait_status(child), 0);
  EXPECT_TRUE(node->processes(0).empty()) << "its process is gone";
  EXPECT_EQ(node->memory_used(0), 644939776u);
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

TEST(SimNode, WakesAWaiterWhenAnEventIsRaised) {
  const TestNode place(kFourH200);
  const auto node = place.open();
  std::atomic<bool> got = false;
  std::thread waiter([&] {
    EventRow event;
    got = node->wait_event(0, 60'000, &event) && event.data == 31;
  });
  node->raise({.gpu = 0, .kind = EventKind::kXid, .data = 31});
  waiter.join();
  EXPECT_TRUE(got);
  EXPECT_FALSE(node->wait_event(1, 1, nullptr)) << "nothing newer";
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

TEST(SimNode, BoundsAProcessByItsMigInstance) {
  const TestNode place("gpus:\n  - {profile: H200, mig: [3g.71gb, 1g.18gb]}\n");
  const auto node = place.open();
  ASSERT_TRUE(node->attach(getpid(), 0, ProcessKind::kCompute, 0));
  ASSERT_TRUE(node->place_in_instance(getpid(), 0, 7, 0));
  EXPECT_FALSE(node->charge(getpid(), 0, (std::int64_t{16384} << 20) + 1));
  EXPECT_TRUE(node->charge(getpid(), 0, std::int64_t{16384} << 20));
}

TEST(SimNode, KeepsMadeUpProcessesUntilTheyAreRemoved) {
  const TestNode place(kFourH200);
  const auto node = place.open();
  ASSERT_TRUE(node->add_made_up_process({.pid = 4'000'000, .gpu = 1, .kind = ProcessKind::kMpsClient, .bytes = 5}));
  EXPECT_EQ(node->processes(1).size(), 1u);
  node->detach(4'000'000, 1);
  EXPECT_TRUE(node->processes(1).empty());
  EXPECT_FALSE(node->attach(4'000'000, 1, ProcessKind::kCompute, 0)) << "no process has this number";
}

TEST(SimNode, OneOfManyFirstOpenersMakesTheState) {
  const TestNode place(kFourH200);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(in_child([&] {
      const auto node = Node::open(place.dir());
      if (!node) return 1;
      (*node)->raise({.gpu = 0, .kind = EventKind::kClock});
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_status(child), 0);
  EXPECT_EQ(place.open()->newest_event(), 8u);
}

TEST(SimNode, FailsAndHangsCallsOnRequest) {
  const TestNode place(kFourH200);
  const auto node = place.open();
  EXPECT_FALSE(node->fault_for("nvmlDeviceGetUUID", 0));
  Fault fail{.call = {}, .gpu = 1, .kind = FaultKind::kFail, .value = 15, .skip = 0, .times = 0};
  fail.call = "nvmlDeviceGetUUID";
  ASSERT_TRUE(node->add_fault(fail));
  EXPECT_FALSE(node->fault_for("nvmlDeviceGetUUID", 0));
  ASSERT_TRUE(node->fault_for("nvmlDeviceGetUUID", 1));
  EXPECT_EQ(node->suffer(*node->fault_for("nvmlDeviceGetUUID", 1)), 15u);
  Fault hang{.call = {}, .gpu = -1, .kind = FaultKind::kHang, .value = 0, .skip = 0, .times = 0};
  hang.call = "*";
  node->clear_faults();
  ASSERT_TRUE(node->add_fault(hang));
  std::atomic<bool> back = false;
  const auto met = node->fault_for("anything", -1);
  ASSERT_TRUE(met);
  std::thread caller([&] { back = !node->suffer(*met).has_value(); });
  node->clear_faults();
  caller.join();
  EXPECT_TRUE(back);
}

}  // namespace
}  // namespace tranche::sim
