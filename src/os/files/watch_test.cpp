#include "os/files/watch.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "os/files/scratch_fixture.h"
#include "os/loop/loop_fixture.h"

namespace tranche::os {
namespace {

using namespace std::chrono_literals;

class WatchTest : public LoopFixture {
 protected:
  void SetUp() override {
    LoopFixture::SetUp();
    auto dir = Dir::open(scratch_.path());
    ASSERT_TRUE(dir);
    dir_ = std::make_unique<Dir>(std::move(*dir));
  }
  void watch() {
    auto opened = DirWatch::open(*loop_, scratch_.path(), [this](const std::string& name) {
      seen_.push_back(name);
      if (name == wanted_) loop_->stop();
    });
    ASSERT_TRUE(opened) << to_string(opened.error());
    watch_ = std::move(*opened);
  }
  void run_until(const std::string& name) {
    wanted_ = name;
    run();
  }

  Scratch scratch_;
  std::unique_ptr<Dir> dir_;
  std::unique_ptr<DirWatch> watch_;
  std::string wanted_;
  std::vector<std::string> seen_;
};

TEST_F(WatchTest, SeesAFileAppearChangeAndGo) {
  watch();
  ASSERT_TRUE(dir_->write_atomically("a", "1"));
  run_until("a");
  std::FILE* file = std::fopen((scratch_ / "a").c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fclose(file);
  run_until("a");
  ASSERT_TRUE(dir_->remove("a"));
  run_until("a");
}

TEST_F(WatchTest, SeesARenameOverAnExistingFile) {
  ASSERT_TRUE(dir_->write_atomically("config.yaml", "1"));
  watch();
  ASSERT_TRUE(dir_->write_atomically("config.yaml", "2"));
  run_until("config.yaml");
  EXPECT_EQ(dir_->read("config.yaml"), "2");
}

TEST_F(WatchTest, SeesALinkSwappedAsForAMountedConfigMap) {
  ASSERT_TRUE(dir_->make_subdir("..v1"));
  ASSERT_TRUE(dir_->make_subdir("..v2"));
  ASSERT_EQ(::symlink("..v1", (scratch_ / "..data").c_str()), 0);
  watch();
  ASSERT_EQ(::symlink("..v2", (scratch_ / "..data_tmp").c_str()), 0);
  ASSERT_EQ(::rename((scratch_ / "..data_tmp").c_str(), (scratch_ / "..data").c_str()), 0);
  run_until("..data");
}

TEST_F(WatchTest, ReportsThatTheDirectoryItselfIsGone) {
  dir_.reset();  // the kernel reports no removal while a descriptor is open
  watch();
  ASSERT_EQ(::rmdir(scratch_.path().c_str()), 0);
  run_until("");
}

TEST_F(WatchTest, MayBeDroppedInsideItsCallback) {
  int calls = 0;
  auto opened = DirWatch::open(*loop_, scratch_.path(), [&](const std::string&) {
    ++calls;
    watch_.reset();
    loop_->after(1ms, [&] { loop_->stop(); });
  });
  ASSERT_TRUE(opened);
  watch_ = std::move(*opened);
  ASSERT_TRUE(dir_->write_atomically("a", "1"));
  ASSERT_TRUE(dir_->write_atomically("b", "1"));
  run();
  EXPECT_EQ(calls, 1);
}

TEST_F(WatchTest, ABurstReportsEachNameOncePerRound) {
  watch();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(dir_->make_subdir("d"));
    ASSERT_TRUE(dir_->remove_tree("d"));
  }
  ASSERT_TRUE(dir_->make_subdir("end"));
  run_until("end");
  EXPECT_EQ(std::ranges::count(seen_, "d"), 1);
}

TEST_F(WatchTest, ADirectoryThatIsNotThereIsAnError) {
  const auto opened = DirWatch::open(*loop_, scratch_ / "nope", [](const std::string&) {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, Kind::kNotFound);
}

}  // namespace
}  // namespace tranche::os
