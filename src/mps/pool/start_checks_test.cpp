#include "mps/pool/pool_dirs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "os/files/scratch_fixture.h"

namespace tranche::mps {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StartChecks, RefuseAPipeDirectoryOfSomebodyElse) {
  EXPECT_TRUE(judge_owner("/p", 0, 1000));
  EXPECT_TRUE(judge_owner("/p", 1000, 1000));
  const auto judged = judge_owner("/p", 1001, 0);
  ASSERT_FALSE(judged);
  EXPECT_EQ(judged.error().kind, Kind::kDenied);
  EXPECT_THAT(judged.error().what, HasSubstr("belongs to user 1001"));
  EXPECT_THAT(judged.error().what, HasSubstr("chown 0 /p"));
}

TEST(StartChecks, WarnOfFewOpenFiles) {
  EXPECT_EQ(judge_open_files(16384), "");
  EXPECT_THAT(judge_open_files(1024), HasSubstr("1024 files only"));
}

TEST(StartChecks, NameTheLabelThatContainersNeed) {
  EXPECT_EQ(for_containers("system_u:object_r:var_run_t:s0"), "system_u:object_r:container_file_t:s0");
  EXPECT_EQ(for_containers("system_u:object_r:container_file_t:s0:c1,c2"),
            "system_u:object_r:container_file_t:s0:c1,c2");
  EXPECT_EQ(for_containers(""), "");
  EXPECT_EQ(for_containers("unlabeled"), "");
}

TEST(StartChecks, MendTheModeOfAPipeDirectoryAndNameAClosedParent) {
  const os::Scratch scratch;
  const std::string closed = scratch / "closed", pipe = closed + "/pipe";
  std::filesystem::create_directories(pipe);
  ASSERT_EQ(::chmod(pipe.c_str(), 0777), 0);
  ASSERT_EQ(::chmod(closed.c_str(), 0700), 0);
  const auto notes = check_before_start(pipe, pipe, true);
  ASSERT_TRUE(notes) << to_string(notes.error());
  struct stat status{};
  ASSERT_EQ(::stat(pipe.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0755u);
  ASSERT_EQ(::chmod(scratch.path().c_str(), 0755), 0);
  const auto again = check_before_start(pipe, pipe, true);
  EXPECT_THAT(*again, Contains(HasSubstr("chmod o+x " + closed)));
  EXPECT_THAT(*check_before_start(pipe, pipe, false), Not(Contains(HasSubstr("chmod"))))
      << "containers get their directory by a mount";
  ASSERT_EQ(::chmod(closed.c_str(), 0755), 0);
  EXPECT_THAT(*check_before_start(pipe, pipe, true), Not(Contains(HasSubstr("chmod o+x " + closed))));
  EXPECT_EQ(check_before_start(scratch / "nothing", pipe, true).error().kind, Kind::kNotFound);
}

}  // namespace
}  // namespace tranche::mps
