#include <gmock/gmock.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "os/files/scratch_fixture.h"
#include "os/loop/loop_fixture.h"
#include "os/socket/status_socket.h"
#include "os/socket/unix_socket.h"

namespace tranche::os {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

// Server and watcher in one loop.
class StatusWatcherTest : public LoopFixture {
 protected:
  void serve() {
    auto opened =
        StatusServer::open(*loop_, path_, [this](const std::string&) -> Result<std::string> { return state_; });
    ASSERT_TRUE(opened) << to_string(opened.error());
    server_ = std::move(*opened);
  }
  void follow() {
    watcher_ = std::make_unique<StatusWatcher>(*loop_, path_, [this](const std::string& line) {
      lines_.push_back(line);
      loop_->stop();
    });
  }

  Scratch scratch_;
  std::string path_ = scratch_ / "s.sock";
  std::unique_ptr<StatusServer> server_;
  std::unique_ptr<StatusWatcher> watcher_;
  std::string state_ = "one";
  std::vector<std::string> lines_;
};

TEST_F(StatusWatcherTest, FollowsEveryChange) {
  serve();
  follow();
  EXPECT_TRUE(lines_.empty());  // never inside the constructor
  run();
  state_ = "two";
  server_->changed();
  run();
  EXPECT_THAT(lines_, ElementsAre("one", "two"));
}

TEST_F(StatusWatcherTest, ReportsOnceThatThereIsNoServerAndThenFindsIt) {
  follow();
  run();
  EXPECT_THAT(lines_, ElementsAre(""));
  loop_->after(100ms, [this] { serve(); });  // several attempts fail silently before
  run();
  EXPECT_THAT(lines_, ElementsAre("", "one"));
}

TEST_F(StatusWatcherTest, ComesBackAfterARestartOfTheServer) {
  serve();
  follow();
  run();
  server_.reset();
  run();
  state_ = "again";
  serve();
  run();
  EXPECT_THAT(lines_, ElementsAre("one", "", "again"));
}

TEST_F(StatusWatcherTest, FindsAServerWhoseDirectoryIsMadeLater) {
  path_ = scratch_ / "later/s.sock";
  follow();
  run();
  ASSERT_TRUE(Dir::create(scratch_ / "later"));
  serve();
  run();
  EXPECT_THAT(lines_, ElementsAre("", "one"));
}

TEST_F(StatusWatcherTest, MayBeDroppedInsideItsCallback) {
  serve();
  int calls = 0;
  watcher_ = std::make_unique<StatusWatcher>(*loop_, path_, [&](const std::string&) {
    ++calls;
    watcher_.reset();
    server_->changed();
    loop_->after(10ms, [this] { loop_->stop(); });
  });
  run();
  EXPECT_EQ(calls, 1);
}

TEST_F(StatusWatcherTest, DroppingItBeforeItConnectsIsFine) {
  follow();
  watcher_.reset();
  loop_->after(5ms, [this] { loop_->stop(); });
  run();
  EXPECT_TRUE(lines_.empty());
}

TEST_F(StatusWatcherTest, ManyFollowersAreAllNotified) {
  serve();
  constexpr std::size_t kFollowers = 50;
  std::vector<std::unique_ptr<StatusWatcher>> followers;
  std::size_t notices = 0;
  for (std::size_t i = 0; i < kFollowers; ++i) {
    followers.push_back(std::make_unique<StatusWatcher>(*loop_, path_, [&](const std::string& line) {
      EXPECT_EQ(line, state_);
      if (++notices % kFollowers == 0) loop_->stop();
    }));
  }
  run();
  state_ = "two";
  server_->changed();
  run();
  EXPECT_EQ(notices, 2 * kFollowers);
}

// A different kind of server: it answers "watch" with `first` and sends nothing more.
class OtherServer {
 public:
  OtherServer(Loop& loop, const std::string& path, std::string first) : loop_(loop), first_(std::move(first)) {
    listening_ = *listen_at(path);
    watch_ = loop_.watch(listening_.get(), EPOLLIN, [this](std::uint32_t) {
      connections_.emplace_back(::accept(listening_.get(), nullptr, nullptr));
      say(first_);
    });
  }
  ~OtherServer() { loop_.cancel(watch_); }
  OtherServer(const OtherServer&) = delete;
  OtherServer& operator=(const OtherServer&) = delete;
  void say(const std::string& text) const {
    EXPECT_EQ(::send(connections_.back().get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

 private:
  Loop& loop_;
  std::string first_;
  Fd listening_;
  Loop::Id watch_ = 0;
  std::vector<Fd> connections_;
};

TEST_F(StatusWatcherTest, AServerThatFallsSilentIsAsGoodAsGone) {
  const OtherServer server(*loop_, path_, "one\n");
  const auto begun = std::chrono::steady_clock::now();
  follow();
  run();
  run();
  EXPECT_THAT(lines_, ElementsAre("one", ""));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, StatusWatcher::kSilence);
  run();
  EXPECT_EQ(lines_.back(), "one") << "asked again";
}

TEST_F(StatusWatcherTest, BeatsAreNoLinesAndKeepTheConnection) {
  serve();
  follow();
  run();
  loop_->after(StatusWatcher::kSilence + StatusWatcher::kSilence / 4, [this] { loop_->stop(); });
  loop_->run();
  EXPECT_THAT(lines_, ElementsAre("one"));
}

}  // namespace
}  // namespace tranche::os
