#include "os/files/files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "damage.h"
#include "os/files/scratch_fixture.h"

namespace tranche::os {
namespace {

using ::testing::HasSubstr;

class KeptTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name = "kept") const { return scratch_ / name; }
  Scratch scratch_;
  Dir dir_ = *Dir::open(scratch_.path());
};

TEST_F(KeptTest, IsReadBackAndIsNothingWhereThereIsNone) {
  EXPECT_FALSE(read_kept(dir_, "kept").text);
  EXPECT_EQ(read_kept(dir_, "kept").lost, "");
  ASSERT_TRUE(write_kept(dir_, "kept", "one\ntwo\n", 0600, Sync::kYes));
  EXPECT_EQ(read_kept(dir_, "kept").text, "one\ntwo\n");
}

TEST_F(KeptTest, OfALineThatWasCutNothingIsRead) {
  ASSERT_TRUE(dir_.write_atomically("kept", "one 14377\ntwo 143"));
  const auto kept = read_kept(dir_, "kept");
  EXPECT_EQ(kept.text, "one 14377\n");
  EXPECT_THAT(kept.lost, HasSubstr("ends within a line"));
  ASSERT_TRUE(dir_.write_atomically("kept", "one 143"));
  EXPECT_EQ(read_kept(dir_, "kept").text, "");
}

// Whatever the damage: reading returns at once, follows no link, and the next write succeeds.
TEST_F(KeptTest, SurvivesEveryDamage) {
  const std::string passwd = *read_file("/etc/passwd");
  for (const auto& kind : all_damage()) {
    SCOPED_TRACE(kind.name);
    std::filesystem::remove_all(path());
    ASSERT_TRUE(write_kept(dir_, "kept", "one\ntwo\n", 0600));
    kind.spoil(path());
    const auto kept = read_kept(dir_, "kept");
    struct stat there{};
    if (!kept.text) {
      EXPECT_THAT(kept.lost, HasSubstr("was renamed to kept.unreadable"));
      EXPECT_EQ(::lstat(path("kept.unreadable").c_str(), &there), 0);
      EXPECT_NE(::lstat(path().c_str(), &there), 0);
    }
    EXPECT_FALSE(kept.text && kept.text->find("root:") != std::string::npos);
    kind.spoil(path());
    ASSERT_TRUE(write_kept(dir_, "kept", "new\n", 0600));
    EXPECT_EQ(read_kept(dir_, "kept").text, "new\n");
  }
  EXPECT_EQ(*read_file("/etc/passwd"), passwd);
}

TEST_F(KeptTest, WhatKilledWritesLeftIsRemovedByTheNameThatTheyWrote) {
  for (const char* name : {".kept.12.3.tmp", ".kept.12.tmp", ".other.12.3.tmp", "kept.12.3.tmp", ".kept.1x.3.tmp"})
    ASSERT_TRUE(dir_.write_atomically(name, "half"));
  remove_temporaries(dir_, [](std::string_view name) { return name == "kept"; });
  EXPECT_THAT(*dir_.list(),
              ::testing::UnorderedElementsAre(".kept.12.tmp", ".other.12.3.tmp", "kept.12.3.tmp", ".kept.1x.3.tmp"));
}

}  // namespace
}  // namespace tranche::os
