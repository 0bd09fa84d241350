#include "os/files/files.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch_fixture.h"

namespace tranche::os {
namespace {

namespace fs = std::filesystem;

TEST(LinksTest, AreMadeAndReplacedWholeAndNothingElseIsLeft) {
  const Scratch scratch;
  const std::string link = scratch / "link";
  ASSERT_TRUE(put_link("/dev/null", link));
  EXPECT_EQ(read_link(link), "/dev/null");
  ASSERT_TRUE(put_link("nowhere", link));
  EXPECT_EQ(read_link(link), "nowhere") << "also one that leads nowhere is replaced";
  ASSERT_TRUE(put_link("/dev/zero", link));
  EXPECT_EQ(read_link(link), "/dev/zero");
  EXPECT_THAT(names_in(scratch.path()), testing::ElementsAre("link"));
}

TEST(LinksTest, AFileGivesWayAndAFolderDoesNot) {
  const Scratch scratch;
  std::ofstream(scratch / "file") << "x";
  EXPECT_TRUE(put_link("/dev/null", scratch / "file"));
  fs::create_directory(scratch / "folder");
  const auto refused = put_link("/dev/null", scratch / "folder");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Kind::kConflict);
  EXPECT_EQ(names_in(scratch.path()).size(), 2u) << "nothing else is left";
}

TEST(LinksTest, AreKnownApartFromFilesAndNothing) {
  const Scratch scratch;
  const auto none = read_link(scratch / "none");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, Kind::kNotFound);
  std::ofstream(scratch / "file") << "x";
  EXPECT_FALSE(read_link(scratch / "file"));
  ASSERT_TRUE(put_link("file", scratch / "link"));
  EXPECT_TRUE(lead_to_one_file(scratch / "file", scratch / "link"));
  EXPECT_FALSE(lead_to_one_file(scratch / "none", scratch / "link"));
}

}  // namespace
}  // namespace tranche::os
