#include "termination/live/drain_program.h"

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/files/files.h"
#include "os/files/scratch.h"

namespace tranche::agent {
namespace drain_program_test {

using ::testing::HasSubstr;

class DrainOffers : public ::testing::Test {
 protected:
  void program(const std::string& content) {
    ASSERT_TRUE(host::Dir::open(scratch_.path())->write_atomically("tranche-drain", content, 0600));
  }
  std::string source() const { return scratch_ / "tranche-drain"; }
  std::string dir() const { return scratch_ / "on/the/node"; }
  std::string installed() const { return host::read_file(dir() + "/tranche-drain").value_or("none"); }
  host::Scratch scratch_;
};

TEST_F(DrainOffers, TheProgramIsPutThereForAllToRun) {
  program("one");
  const auto offer = install_drain_program(dir(), source());
  EXPECT_EQ(offer, (DrainOffer{dir(), ""}));
  EXPECT_EQ(installed(), "one");
  struct stat info = {};
  ASSERT_EQ(::stat((dir() + "/tranche-drain").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
}

TEST_F(DrainOffers, AnotherContentOrModeIsReplacedAndTheSameIsLeftAlone) {
  program("one");
  (void)install_drain_program(dir(), source());
  struct stat first = {};
  struct stat second = {};
  const auto path = dir() + "/tranche-drain";
  ASSERT_EQ(::stat(path.c_str(), &first), 0);
  (void)install_drain_program(dir(), source());
  ASSERT_EQ(::stat(path.c_str(), &second), 0);
  EXPECT_EQ(first.st_ino, second.st_ino);
  program("two");
  (void)install_drain_program(dir(), source());
  EXPECT_EQ(installed(), "two");
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  (void)install_drain_program(dir(), source());
  ASSERT_EQ(::stat(path.c_str(), &second), 0);
  EXPECT_EQ(second.st_mode & 07777, 0755u);
}

TEST_F(DrainOffers, WhatIsMissingIsSaidAndNothingIsOffered) {
  const auto none = install_drain_program(dir(), source());
  EXPECT_EQ(none.dir, "");
  EXPECT_THAT(none.problem, HasSubstr("tranche-drain is not beside this program"));
  program("one");
  EXPECT_EQ(install_drain_program("", source()), DrainOffer{});
  EXPECT_THAT(install_drain_program("bin", source()).problem, HasSubstr("not an absolute path"));
  ASSERT_TRUE(host::Dir::open(scratch_.path())->write_atomically("file", "x"));
  EXPECT_THAT(install_drain_program(scratch_ / "file/bin", source()).problem, HasSubstr("no preStop drain is offered"));
}

TEST_F(DrainOffers, AFolderThatProgramsCannotRunFromIsRefused) {
  program("one");
  ASSERT_TRUE(host::Dir::create(dir()));
  if (::geteuid() != 0 || ::mount("none", dir().c_str(), "tmpfs", MS_NOEXEC, "") != 0)
    GTEST_SKIP() << "mounting needs root";
  const auto offer = install_drain_program(dir(), source());
  ::umount2(dir().c_str(), MNT_DETACH);
  EXPECT_EQ(offer.dir, "");
  EXPECT_THAT(offer.problem, HasSubstr("noexec"));
}

}  // namespace drain_program_test
}  // namespace tranche::agent
