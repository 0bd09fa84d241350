#include "mps/control/log_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/files/scratch_fixture.h"
#include "run_until.h"

namespace tranche::mps {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class LogTailTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *os::Loop::open();
    watch_ = *LogWatch::open(*loop_);
  }
  void open(std::uint64_t bound) {
    auto tail = LogTail::open(
        watch_, *os::Dir::open(scratch_.path()), "control.log",
        [this](const std::string& line) {
          lines_.push_back(line);
          if (lines_.size() == wanted_) loop_->stop();
        },
        bound);
    ASSERT_TRUE(tail) << to_string(tail.error());
    tail_ = *std::move(tail);
  }
  // Like the daemon, which holds the file open as long as it runs.
  void write(const std::string& text) {
    ASSERT_EQ(::write(tail_->fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void run_until(std::size_t lines) {
    wanted_ = lines;
    if (lines_.size() < wanted_) os::run_until_stopped(*loop_);
  }
  os::Scratch scratch_;
  std::unique_ptr<os::Loop> loop_;
  std::shared_ptr<LogWatch> watch_;
  std::unique_ptr<LogTail> tail_;
  std::vector<std::string> lines_;
  std::size_t wanted_ = 0;
};

TEST_F(LogTailTest, ReportsLinesWhileTheirWriterHoldsTheFileOpen) {
  open(1 << 20);
  write("one\ntwo\nthr");
  run_until(2);
  write("ee\n");
  run_until(3);
  EXPECT_THAT(lines_, ElementsAre("one", "two", "three"));
}

TEST_F(LogTailTest, RestsAndThenReportsWhatWasWrittenMeanwhileAndWhatComes) {
  open(1 << 20);
  watch_->rest();
  write("one\n");
  watch_->rest();
  run_until(1);
  write("two\n");
  run_until(2);
  EXPECT_THAT(lines_, ElementsAre("one", "two"));
}

TEST_F(LogTailTest, FilesAreFollowedByOneWatchAndOneThatIsGoneEndsNoOther) {
  open(1 << 20);
  std::vector<std::string> others;
  const auto open_other = [&] {
    return *LogTail::open(watch_, *os::Dir::open(scratch_.path()), "other.log",
                          [&](const std::string& line) { others.push_back(line); });
  };
  auto other = open_other();
  auto again = open_other();  // opened before this one is destroyed
  other.reset();
  ASSERT_EQ(::write(again->fd(), "new\n", 4), 4);
  write("one\n");
  run_until(1);
  EXPECT_THAT(others, ElementsAre("new"));
  again.reset();
  write("two\n");
  run_until(2);
  EXPECT_THAT(lines_, ElementsAre("one", "two"));
}

TEST_F(LogTailTest, BeginsAgainInAFileThatSomebodyEmptied) {
  open(1 << 20);
  write("a long line before the file is emptied\n");
  run_until(1);
  ASSERT_EQ(::ftruncate(tail_->fd(), 0), 0);
  write("short\n");
  run_until(2);
  EXPECT_EQ(lines_.back(), "short");
}

TEST_F(LogTailTest, StartsAtTheEndAndKeepsTheFileSmall) {
  ASSERT_TRUE(os::Dir::open(scratch_.path())->write_atomically("control.log", "from before\n"));
  open(64);
  for (int i = 0; i < 20; ++i) {
    write("line " + std::to_string(i) + "\n");
    run_until(static_cast<std::size_t>(i) + 1);
  }
  EXPECT_EQ(lines_.front(), "line 0");
  EXPECT_EQ(lines_.back(), "line 19");
  struct stat status{};
  ASSERT_EQ(::stat((scratch_ / "control.log").c_str(), &status), 0);
  EXPECT_LT(status.st_size, 80);
}

}  // namespace
}  // namespace tranche::mps
