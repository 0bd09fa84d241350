#include "node/node_program.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "os/files/files.h"
#include "os/files/scratch_fixture.h"

namespace tranche::node {
namespace drain_program_test {

using ::testing::HasSubstr;

class DrainInstall : public ::testing::Test {
 protected:
  void program(const std::string& content) {
    ASSERT_TRUE(os::Dir::open(scratch_.path())->write_atomically("tranche-drain", content, 0600));
  }
  std::string source() const { return scratch_ / "tranche-drain"; }
  std::string dir() const { return scratch_ / "on/the/node"; }
  std::string installed() const { return os::read_file(dir() + "/tranche-drain").value_or("none"); }
  os::Scratch scratch_;
};

TEST_F(DrainInstall, TheProgramIsPutThereForAllToRun) {
  program("one");
  ASSERT_TRUE(install_drain_program(dir(), source()));
  EXPECT_EQ(installed(), "one");
  struct stat info = {};
  ASSERT_EQ(::stat((dir() + "/tranche-drain").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
}

TEST_F(DrainInstall, AnotherContentOrModeIsReplacedAndTheSameIsLeftAlone) {
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

TEST_F(DrainInstall, FailsWithTheReason) {
  const auto none = install_drain_program(dir(), source());
  ASSERT_FALSE(none);
  EXPECT_THAT(to_string(none.error()), HasSubstr("tranche-drain is not beside this program"));
  program("one");
  EXPECT_TRUE(install_drain_program("", source())) << "it is not requested";
  const auto relative = install_drain_program("bin", source());
  ASSERT_FALSE(relative);
  EXPECT_THAT(to_string(relative.error()), HasSubstr("not an absolute path"));
  ASSERT_TRUE(os::Dir::open(scratch_.path())->write_atomically("file", "x"));
  EXPECT_FALSE(install_drain_program(scratch_ / "file/bin", source()));
}

}  // namespace drain_program_test
}  // namespace tranche::node
