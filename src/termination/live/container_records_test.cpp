#include "termination/live/container_records.h"

#include <gmock/gmock.h>

#include "os/files/files.h"
#include "os/files/scratch.h"
#include "termination/program_arguments.h"

namespace tranche::agent {
namespace container_records_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const MonoTime kT0{1000s};
constexpr const char* kGrant = "00ff11ee22dd33cc";

class Records : public ::testing::Test {
 protected:
  std::vector<std::string> files() const {
    const auto dir = host::Dir::open(scratch_ / "containers");
    return dir ? dir->list().value_or(std::vector<std::string>{"cannot list"}) : std::vector<std::string>{};
  }
  host::Scratch scratch_;
  ContainerRecords records_{scratch_.path(), {"/run/nvidia/mps"}};
};

TEST_F(Records, ALiveContainersEndpointIsWrittenForTheRuntime) {
  ASSERT_TRUE(records_.follow({{"containerd://3f2a", "gpu-1", kGrant}}, kT0));
  EXPECT_THAT(files(), ElementsAre("3f2a"));
  const auto text = *host::read_file(scratch_ / "containers/3f2a");
  const auto record = stopping::read_container_record(text);
  EXPECT_EQ(record.pool, "gpu-1");
  EXPECT_EQ(record.grant, kGrant);
  EXPECT_EQ(record.drain, "/run/nvidia/mps/pools/gpu-1/endpoints/00ff11ee22dd33cc/drain");
}

TEST_F(Records, OneThatIsNotKnownAnyMoreStaysForAMinute) {
  ASSERT_TRUE(records_.follow({{"a", "gpu-1", kGrant}}, kT0));
  ASSERT_TRUE(records_.follow({}, kT0 + 59s));
  EXPECT_THAT(files(), ElementsAre("a"));
  ASSERT_TRUE(records_.follow({}, kT0 + 60s));
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(records_.count(), 0u);
}

TEST_F(Records, TheNextContainerOfAGrantReplacesTheLast) {
  ASSERT_TRUE(records_.follow({{"a", "gpu-1", kGrant}}, kT0));
  ASSERT_TRUE(records_.follow({{"b", "gpu-1", kGrant}}, kT0 + 1s));
  EXPECT_THAT(files(), ElementsAre("b"));
}

TEST_F(Records, FromBeforeOurStartAreKeptAndRubbishIsRemoved) {
  ASSERT_TRUE(records_.follow({{"a", "gpu-1", kGrant}}, kT0));
  const auto dir = *host::Dir::open(scratch_ / "containers");
  ASSERT_TRUE(dir.write_atomically("broken", "drain=\n"));
  ContainerRecords newer(scratch_.path(), {"/run/nvidia/mps"});
  ASSERT_TRUE(newer.follow({{"b", "gpu-1", "0000000000000001"}}, kT0 + 100s));
  EXPECT_THAT(files(), ElementsAre("a", "b"));
}

TEST_F(Records, AnIdThatIsNoFilesNameIsLeftOut) {
  ASSERT_TRUE(records_.follow(
      {{"containerd://../x", "gpu-1", kGrant}, {"", "gpu-1", kGrant}, {"a/b", "gpu-1", kGrant}, {"c", "gpu-1", ""}},
      kT0));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Records, AFolderThatCannotBeMadeIsAnErrorAndTriedAgain) {
  const auto dir = *host::Dir::open(scratch_.path());
  ASSERT_TRUE(dir.write_atomically("containers", "in the way"));
  EXPECT_FALSE(records_.follow({{"a", "gpu-1", kGrant}}, kT0));
  ASSERT_TRUE(dir.remove("containers"));
  EXPECT_TRUE(records_.follow({{"a", "gpu-1", kGrant}}, kT0));
  EXPECT_THAT(files(), ElementsAre("a"));
}

}  // namespace container_records_test
}  // namespace tranche::agent
