#include "mps/daemon/compute_modes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "damage.h"
#include "os/files/scratch_fixture.h"

namespace tranche::mps {
namespace {

using gpu::ComputeMode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kA = "GPU-3f2a1b4c-0000-1111-2222-333344445555";
const std::string kB = "GPU-9d8e7f60-aaaa-bbbb-cccc-ddddeeeeffff";

struct Driver {
  std::map<std::string, ComputeMode> modes{{kA, ComputeMode::kDefault}, {kB, ComputeMode::kProhibited}};
  std::vector<std::string> file_when_set;  // what was on disk at each change
  bool refuses = false;
  std::string root;

  ComputeModes::Setter setter() {
    return [this](const std::string& uuid, ComputeMode mode, const ComputeModes::Done& done) {
      file_when_set.push_back(os::read_file(root + "/compute-mode.json").value_or(""));
      if (refuses) return done(fail(Kind::kDenied, "not permitted", "nvmlDeviceSetComputeMode"));
      modes[uuid] = mode;
      done({});
    };
  }
};

class ComputeModesTest : public ::testing::Test {
 protected:
  void SetUp() override { driver_.root = scratch_.path(); }
  ComputeModes open() { return {*os::Dir::open(scratch_.path()), driver_.setter()}; }
  std::string file() const { return os::read_file(scratch_ / "compute-mode.json").value_or("none"); }

  os::Scratch scratch_;
  Driver driver_;
  Status last_ = fail(Kind::kInvalid, "not called");
  ComputeModes::Done done() {
    return [this](const Status& status) { last_ = status; };
  }
};

TEST_F(ComputeModesTest, AreExclusiveWhileSharedAndGivenBackAfter) {
  auto modes = open();
  modes.seen(kA, ComputeMode::kDefault);
  modes.make_exclusive(kA, done());
  EXPECT_TRUE(last_);
  EXPECT_EQ(driver_.modes[kA], ComputeMode::kExclusiveProcess);
  modes.give_back(kA, done());
  EXPECT_TRUE(last_);
  EXPECT_EQ(driver_.modes[kA], ComputeMode::kDefault);
  EXPECT_EQ(file(), "none");
}

TEST_F(ComputeModesTest, AreWrittenDownBeforeTheyAreChanged) {
  auto modes = open();
  modes.seen(kB, ComputeMode::kProhibited);
  modes.make_exclusive(kB, done());
  ASSERT_EQ(driver_.file_when_set.size(), 1u);
  EXPECT_THAT(driver_.file_when_set[0], HasSubstr("\"" + kB + "\": \"PROHIBITED\""));
}

// Promise: mps/daemon: The compute mode from before a kill is restored by the next start.
TEST_F(ComputeModesTest, AreGivenBackByTheNextStartAfterAKill) {
  {
    auto killed = open();
    killed.seen(kB, ComputeMode::kProhibited);
    killed.make_exclusive(kB, done());
  }
  auto next = open();
  next.seen(kB, ComputeMode::kExclusiveProcess);  // the mode found now, not the earlier one
  next.make_exclusive(kB, done());
  EXPECT_TRUE(last_);
  next.give_back(kB, done());
  EXPECT_EQ(driver_.modes[kB], ComputeMode::kProhibited);
  EXPECT_TRUE(next.changed().empty());
}

TEST_F(ComputeModesTest, AreKnownToBeWhatWasSetSinceTheLastScan) {
  auto modes = open();
  modes.seen(kB, ComputeMode::kProhibited);
  modes.make_exclusive(kB, done());
  modes.seen(kB, ComputeMode::kExclusiveProcess);  // a scan while it was shared
  modes.give_back(kB, done());
  modes.make_exclusive(kB, done());
  EXPECT_EQ(driver_.modes[kB], ComputeMode::kExclusiveProcess) << "the scan is older than what was given back";
  modes.give_back(kB, done());
  EXPECT_EQ(driver_.modes[kB], ComputeMode::kProhibited);
}

TEST_F(ComputeModesTest, ThatWereExclusiveBeforeStaySo) {
  auto modes = open();
  modes.seen(kA, ComputeMode::kExclusiveProcess);
  modes.make_exclusive(kA, done());
  EXPECT_TRUE(last_);
  modes.give_back(kA, done());
  EXPECT_TRUE(last_);
  EXPECT_TRUE(driver_.file_when_set.empty());
}

TEST_F(ComputeModesTest, ThatCannotBeSetAreAnErrorThatNamesTheGpu) {
  driver_.refuses = true;
  auto modes = open();
  modes.seen(kA, ComputeMode::kDefault);
  modes.make_exclusive(kA, done());
  ASSERT_FALSE(last_);
  EXPECT_EQ(last_.error().kind, Kind::kDenied);
  EXPECT_THAT(last_.error().what, HasSubstr("the compute mode of " + kA + " cannot be set to EXCLUSIVE_PROCESS"));
}

TEST_F(ComputeModesTest, OfAJournalThatCannotBeUsedAreThoseOfTheDriver) {
  const auto dir = os::Dir::open(scratch_.path());
  auto kinds = all_damage();
  for (const char* text : {"{\"GPU-a\": 3}\n", "{\"GPU-a\": \"FAST\"}\n", "{\"\": \"DEFAULT\"}\n"})
    kinds.push_back({text, [text](const std::string& path) { std::ofstream(path) << text; }});
  for (const auto& kind : kinds) {
    if (kind.name == "without any rights" && ::geteuid() == 0) continue;  // root can read it
    SCOPED_TRACE(kind.name);
    std::filesystem::remove_all(scratch_ / "compute-mode.json");
    ASSERT_TRUE(dir->write_atomically("compute-mode.json", render_earlier_modes({{kA, ComputeMode::kProhibited}})));
    kind.spoil(scratch_ / "compute-mode.json");
    auto modes = open();
    EXPECT_THAT(modes.lost(), HasSubstr("was renamed to compute-mode.json.unreadable"));
    EXPECT_TRUE(modes.changed().empty());
    modes.seen(kA, ComputeMode::kDefault);
    modes.make_exclusive(kA, done());
    EXPECT_TRUE(last_);
    EXPECT_THAT(file(), HasSubstr("DEFAULT"));
  }
  EXPECT_EQ(open().lost(), "") << "what was written since is good";
}

TEST(EarlierModes, ReadsBackWhatItWrites) {
  const EarlierModes earlier{{kA, ComputeMode::kDefault}, {kB, ComputeMode::kExclusiveThread}};
  EXPECT_EQ(*parse_earlier_modes(render_earlier_modes(earlier)), earlier);
}

}  // namespace
}  // namespace tranche::mps
