#include "mps/endpoints/containers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "os/files/scratch_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kRest = " 0 0 0 0 0 0 0 0 20 0 1 0 9";  // up to the time of the start

// A simulated /proc: processes with a parent, namespaces and a cgroup.
class AncestorsTest : public ::testing::Test {
 protected:
  void process(pid_t pid, pid_t parent, const std::string& nspid, const std::string& cgroup) {
    const auto own = *os::Dir::create(proc_ / std::to_string(pid));
    ASSERT_TRUE(
        own.write_atomically("status", fmt::format("State:\tS (sleeping)\nPPid:\t{}\nNSpid:\t{}\n", parent, nspid)));
    ASSERT_TRUE(own.write_atomically("stat", fmt::format("{} (x) S {} 1 1 0 -1 4194304{}\n", pid, parent, kRest)));
    ASSERT_TRUE(own.write_atomically("cgroup", "0::" + cgroup + "\n"));
  }
  std::vector<pid_t> above(pid_t client) { return Ancestors(proc_.path()).of(client).value(); }
  os::Scratch proc_;
};

TEST_F(AncestorsTest, EndWithTheFirstProcessOfTheContainer) {
  process(50, 1, "50", "/shim");
  process(100, 50, "100\t1", "/a");
  process(101, 100, "101\t2", "/a");
  process(102, 101, "102\t3", "/a/nested");
  EXPECT_THAT(above(102), ElementsAre(101, 100));
  EXPECT_THAT(above(100), IsEmpty());
}

// As under cgroup v1, which moves a thread that exits into the root control group.
TEST_F(AncestorsTest, OfAClientWithoutItsFirstThreadAreTheSame) {
  process(50, 1, "50", "/shim");
  process(100, 50, "100", "/a");
  process(101, 100, "101", "/");
  const auto own = *os::Dir::open(proc_ / "101");
  ASSERT_TRUE(own.write_atomically("stat", fmt::format("101 (x) Z 100 1 1 0 -1 4194308{}\n", kRest)));
  const auto task = *os::Dir::create(proc_ / "101/task/102");
  ASSERT_TRUE(task.write_atomically("stat", fmt::format("102 (x) S 100 1 1 0 -1 4194304{}\n", kRest)));
  ASSERT_TRUE(task.write_atomically("cgroup", "0::/a\n"));
  EXPECT_THAT(above(101), ElementsAre(100));
}

// Promise: mps/endpoints: The processes above a tenant's clients that one request looks at are bounded.
TEST_F(AncestorsTest, ThatOneRequestLooksAtAreBounded) {
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

TEST_F(AncestorsTest, InTheHostsNamespaceAreThoseOfTheControlGroup) {
  process(50, 1, "50", "/shim");
  process(100, 50, "100", "/a");
  process(101, 100, "101", "/a");
  EXPECT_THAT(above(101), ElementsAre(100));
}

TEST_F(AncestorsTest, HaveNoPauseProcessOfASharedNamespace) {
  process(100, 50, "100\t1", "/pause");
  process(101, 100, "101\t7", "/a");
  EXPECT_THAT(above(101), IsEmpty());
}

TEST_F(AncestorsTest, EndWhereTheStatusCannotBeRead) {
  EXPECT_THAT(above(4), IsEmpty());
  process(100, 50, "100\t1", "/a");
  for (const char* nspid : {"", "x\t2", "101\tx", "101\t0"}) {
    process(101, 100, nspid, "/a");
    EXPECT_THAT(above(101), IsEmpty()) << nspid;
  }
}

}  // namespace
}  // namespace tranche::mps
