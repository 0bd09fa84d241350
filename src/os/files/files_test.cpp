#include "os/files/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "os/files/scratch_fixture.h"

namespace tranche::os {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    ::umask(077);  // modes must not depend on it
    auto opened = Dir::open(scratch_.path());
    CHECK_THAT(opened.has_value(), "cannot open the scratch directory");
    dir_ = std::make_unique<Dir>(std::move(*opened));
  }
  static mode_t mode_of(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }
  static ino_t inode_of(const std::string& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_ino;
  }
  std::vector<std::string> names() const { return dir_->list().value(); }

  Scratch scratch_;
  std::unique_ptr<Dir> dir_;
};

TEST_F(FilesTest, WhatIsWrittenIsReadBack) {
  ASSERT_TRUE(dir_->write_atomically("a", "one\n"));
  EXPECT_EQ(dir_->read("a"), "one\n");
  EXPECT_EQ(read_file(scratch_ / "a"), "one\n");
  ASSERT_TRUE(dir_->write_atomically("a", ""));
  EXPECT_EQ(dir_->read("a"), "");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(FilesTest, ModesDoNotDependOnTheUmask) {
  ASSERT_TRUE(dir_->write_atomically("a", "x", 0644));
  ASSERT_TRUE(dir_->make_subdir("d", 0755));
  ASSERT_TRUE(dir_->make_subdir("d/e", 0755));
  ASSERT_TRUE(Dir::create(scratch_ / "f/g", 0711));
  EXPECT_EQ(mode_of(scratch_ / "a"), 0644u);
  EXPECT_EQ(mode_of(scratch_ / "d"), 0755u);
  EXPECT_EQ(mode_of(scratch_ / "d/e"), 0755u);
  EXPECT_EQ(mode_of(scratch_ / "f"), 0755u);
  EXPECT_EQ(mode_of(scratch_ / "f/g"), 0711u);
}

TEST_F(FilesTest, AReaderNeverSeesHalfAFile) {
  const std::string shorter(10'000, 'a');
  const std::string longer(300'000, 'b');
  ASSERT_TRUE(dir_->write_atomically("f", shorter));
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(dir_->write_atomically("f", i % 2 == 0 ? longer : shorter));
  });
  for (int i = 0; i < 200; ++i) {
    const auto seen = dir_->read("f");
    ASSERT_TRUE(seen) << to_string(seen.error());
    ASSERT_TRUE(*seen == shorter || *seen == longer);
  }
  writer.join();
  EXPECT_THAT(names(), ElementsAre("f"));
}

TEST_F(FilesTest, PathsThatLeaveTheDirectoryAreRefused) {
  for (const char* path : {"", "/etc/passwd", "..", "../x", "a/../../x", "a/.."}) {
    EXPECT_EQ(dir_->read(path).error().kind, Kind::kInvalid) << path;
    EXPECT_EQ(dir_->write_atomically(path, "x").error().kind, Kind::kInvalid) << path;
    EXPECT_EQ(dir_->remove(path).error().kind, Kind::kInvalid) << path;
    EXPECT_EQ(dir_->remove_tree(path).error().kind, Kind::kInvalid) << path;
    EXPECT_EQ(dir_->make_subdir(path).error().kind, Kind::kInvalid) << path;
    EXPECT_FALSE(dir_->exists(path)) << path;
  }
  EXPECT_EQ(dir_->remove_tree(".").error().kind, Kind::kInvalid);
  EXPECT_EQ(dir_->read(std::string_view("a\0b", 3)).error().kind, Kind::kInvalid);
}

TEST_F(FilesTest, WritingReplacesALinkInsteadOfFollowingIt) {
  ASSERT_TRUE(dir_->write_atomically("target", "kept"));
  ASSERT_EQ(::symlink("target", (scratch_ / "link").c_str()), 0);
  ASSERT_TRUE(dir_->write_atomically("link", "new"));
  EXPECT_EQ(dir_->read("target"), "kept");
  EXPECT_EQ(dir_->read("link"), "new");
}

TEST_F(FilesTest, ChangesNeverGoThroughALinkOnTheWay) {
  Scratch outside;
  const auto other = Dir::open(outside.path());
  ASSERT_TRUE(other);
  ASSERT_TRUE(other->write_atomically("precious", "x"));
  ASSERT_EQ(::symlink(outside.path().c_str(), (scratch_ / "trap").c_str()), 0);
  EXPECT_FALSE(dir_->write_atomically("trap/new", "x"));
  EXPECT_FALSE(dir_->remove("trap/precious"));
  EXPECT_FALSE(dir_->remove_tree("trap/precious"));
  EXPECT_FALSE(dir_->hard_link(outside / "precious", "trap/link"));
  EXPECT_FALSE(dir_->make_subdir("trap/sub"));
  EXPECT_EQ(dir_->read("trap/precious"), "x");  // reading is permitted
  EXPECT_THAT(other->list().value(), ElementsAre("precious"));
}

TEST_F(FilesTest, ReadingFollowsLinksAsAMountedConfigMapNeeds) {
  ASSERT_TRUE(dir_->make_subdir("..2024"));
  ASSERT_TRUE(dir_->write_atomically("..2024/config.yaml", "v1"));
  ASSERT_EQ(::symlink("..2024", (scratch_ / "..data").c_str()), 0);
  ASSERT_EQ(::symlink("..data/config.yaml", (scratch_ / "config.yaml").c_str()), 0);
  EXPECT_EQ(dir_->read("config.yaml"), "v1");
  EXPECT_TRUE(dir_->exists("config.yaml"));
}

TEST_F(FilesTest, ErrorsNameThePathAndSayWhatHappened) {
  const auto missing = dir_->read("nope");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, Kind::kNotFound);
  EXPECT_EQ(to_string(missing.error()), "cannot open: No such file or directory [" + (scratch_ / "nope") + "]");
  EXPECT_EQ(Dir::open(scratch_ / "nope").error().kind, Kind::kNotFound);
}

TEST_F(FilesTest, AFileLongerThanTheLimitIsRefused) {
  ASSERT_TRUE(dir_->write_atomically("f", std::string(1000, 'x')));
  EXPECT_TRUE(dir_->read("f", 1000));
  const auto longer = dir_->read("f", 999);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().kind, Kind::kInvalid);
  EXPECT_THAT(to_string(longer.error()), HasSubstr("999 bytes"));
}

TEST_F(FilesTest, ANamedPipeInAFilesPlaceDoesNotBlockTheReader) {
  ASSERT_EQ(::mkfifo((scratch_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(dir_->read("pipe").error().kind, Kind::kInvalid);
  EXPECT_EQ(dir_->read(".").error().kind, Kind::kInvalid);
  EXPECT_EQ(read_file(scratch_ / "pipe").error().kind, Kind::kInvalid);
  std::filesystem::create_symlink(scratch_ / "pipe", scratch_ / "link");
  EXPECT_EQ(read_file(scratch_ / "link").error().kind, Kind::kInvalid);
}

TEST_F(FilesTest, APipeOfAShellIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Fd writing(ends[1]);
  const Fd reading(ends[0]);
  std::thread writer([&writing] {
    ASSERT_EQ(::write(writing.get(), "one", 3), 3);
    writing.reset();
  });
  EXPECT_EQ(read_file("/dev/fd/" + std::to_string(reading.get())), "one");
  writer.join();
}

TEST_F(FilesTest, FilesOfProcAreReadAlthoughTheirSizeIsZero) {
  const auto proc = Dir::open("/proc");
  ASSERT_TRUE(proc);
  const auto stat = proc->read("self/stat");
  ASSERT_TRUE(stat);
  EXPECT_THAT(*stat, HasSubstr(std::to_string(::getpid())));
}

TEST_F(FilesTest, RemovingWhatIsNotThereIsFine) {
  EXPECT_TRUE(dir_->remove("nope"));
  EXPECT_TRUE(dir_->remove("nope/deeper"));
  EXPECT_TRUE(dir_->remove_tree("nope"));
  EXPECT_TRUE(dir_->remove_tree("nope/deeper"));
}

TEST_F(FilesTest, RemoveTakesTheLinkNotItsTarget) {
  ASSERT_TRUE(dir_->write_atomically("target", "kept"));
  ASSERT_EQ(::symlink("target", (scratch_ / "link").c_str()), 0);
  ASSERT_TRUE(dir_->remove("link"));
  EXPECT_THAT(names(), ElementsAre("target"));
}

TEST_F(FilesTest, RemovingATreeNeverFollowsLinks) {
  Scratch outside;
  ASSERT_TRUE(Dir::open(outside.path())->write_atomically("precious", "x"));
  ASSERT_TRUE(Dir::create(scratch_ / "t/a/b"));
  ASSERT_TRUE(dir_->write_atomically("t/a/f", "x"));
  ASSERT_EQ(::symlink(outside.path().c_str(), (scratch_ / "t/a/dir-link").c_str()), 0);
  ASSERT_EQ(::symlink((outside / "precious").c_str(), (scratch_ / "t/file-link").c_str()), 0);
  const auto removed = dir_->remove_tree("t");
  EXPECT_TRUE(removed) << to_string(removed.error());
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(read_file(outside / "precious"), "x");
  ASSERT_EQ(::symlink(outside.path().c_str(), (scratch_ / "top-link").c_str()), 0);
  EXPECT_TRUE(dir_->remove_tree("top-link"));
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(read_file(outside / "precious"), "x");
}

TEST_F(FilesTest, ATreeTooDeepToBeOursIsLeftAlone) {
  std::string deep = "d";
  for (int i = 0; i < 80; ++i) deep += "/d";
  ASSERT_TRUE(Dir::create(scratch_ / deep));
  EXPECT_EQ(dir_->remove_tree("d").error().kind, Kind::kInvalid);
  // In two steps it is within the limit.
  EXPECT_TRUE(dir_->remove_tree(deep.substr(0, 79)));
  EXPECT_TRUE(dir_->remove_tree("d"));
}

TEST_F(FilesTest, AHardLinkIsTheSameFileAlsoWhenItIsMadeAgainAndLeavesNothingBehind) {
  ASSERT_TRUE(dir_->write_atomically("control", "x"));
  ASSERT_TRUE(dir_->make_subdir("endpoint"));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(dir_->hard_link(scratch_ / "control", "endpoint/control"));
  EXPECT_EQ(inode_of(scratch_ / "control"), inode_of(scratch_ / "endpoint/control"));
  EXPECT_THAT(Dir::open(scratch_ / "endpoint")->list().value(), ElementsAre("control"));
}

TEST_F(FilesTest, ALinkIsReplacedByTheNewFileUnderTheSameName) {
  ASSERT_TRUE(dir_->write_atomically("control", "old"));
  ASSERT_TRUE(dir_->make_subdir("endpoint"));
  ASSERT_TRUE(dir_->hard_link(scratch_ / "control", "endpoint/control"));
  ASSERT_TRUE(dir_->write_atomically("control", "new"));
  EXPECT_EQ(dir_->read("endpoint/control"), "old");
  ASSERT_TRUE(dir_->hard_link(scratch_ / "control", "endpoint/control"));
  EXPECT_EQ(dir_->read("endpoint/control"), "new");
}

TEST_F(FilesTest, LinkingToWhatIsNotThereKeepsTheOldLink) {
  ASSERT_TRUE(dir_->write_atomically("control", "old"));
  ASSERT_TRUE(dir_->hard_link(scratch_ / "control", "link"));
  const auto status = dir_->hard_link(scratch_ / "gone", "link");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, Kind::kNotFound);
  EXPECT_EQ(dir_->read("link"), "old");
  EXPECT_THAT(names(), ElementsAre("control", "link"));
}

TEST_F(FilesTest, ListingIsSortedAndCanBeRepeated) {
  for (const char* name : {"c", "a", "b"}) ASSERT_TRUE(dir_->write_atomically(name, ""));
  EXPECT_THAT(names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names(), ElementsAre("a", "b", "c"));
}

TEST_F(FilesTest, CreateMakesParentsAndOpensWhatIsThere) {
  ASSERT_TRUE(Dir::create(scratch_ / "x//y/z/"));
  const auto again = Dir::create(scratch_ / "x/y/z");
  ASSERT_TRUE(again);
  ASSERT_TRUE(again->write_atomically("f", "1"));
  EXPECT_EQ(dir_->read("x/y/z/f"), "1");
  ASSERT_TRUE(dir_->write_atomically("file", ""));
  EXPECT_FALSE(Dir::create(scratch_ / "file/below"));
}

TEST_F(FilesTest, CreateGoesThroughLinksThatExist) {
  ASSERT_TRUE(dir_->make_subdir("real"));
  ASSERT_EQ(::symlink("real", (scratch_ / "link").c_str()), 0);
  ASSERT_TRUE(Dir::create(scratch_ / "link/new"));
  EXPECT_TRUE(dir_->exists("real/new"));
}

TEST_F(FilesTest, ADirectoryStaysTheSameWhenItsNameIsTakenByAnother) {
  const auto held = dir_->make_subdir("d");
  ASSERT_TRUE(held);
  ASSERT_TRUE(held->write_atomically("f", "first"));
  ASSERT_EQ(::rename((scratch_ / "d").c_str(), (scratch_ / "moved").c_str()), 0);
  ASSERT_TRUE(dir_->make_subdir("d"));
  EXPECT_EQ(held->read("f"), "first");
  EXPECT_FALSE(dir_->exists("d/f"));
}

TEST(FdTest, MovingOverAnOpenOneClosesIt) {
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  Fd reading(fds[0]);
  Fd writing(fds[1]);
  writing = Fd();
  char byte = 0;
  EXPECT_EQ(::read(reading.get(), &byte, 1), 0);  // end of file: the writing end is closed
}

TEST_F(FilesTest, NamesOfADirectoryAreSortedAndPathsTakenApart) {
  ASSERT_TRUE(dir_->write_atomically("b", ""));
  ASSERT_TRUE(dir_->write_atomically("a", ""));
  EXPECT_THAT(names_in(scratch_.path()), ElementsAre("a", "b"));
  EXPECT_THAT(names_in("/no/such/directory"), IsEmpty());
  for (const auto& [path, directory, name] :
       {std::tuple{"/run/x/y", "/run/x", "y"}, {"/x", "/", "x"}, {"x", ".", "x"}}) {
    EXPECT_EQ(parts_of(path).directory, directory);
    EXPECT_EQ(parts_of(path).name, name);
  }
}

}  // namespace
}  // namespace tranche::os
