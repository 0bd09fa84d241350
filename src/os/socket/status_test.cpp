#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "os/files/scratch_fixture.h"
#include "os/loop/loop_fixture.h"
#include "os/socket/socket_fixture.h"
#include "os/socket/status_socket.h"
#include "os/socket/unix_socket.h"

namespace tranche::os {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A server whose loop runs on a thread of its own; the test is the client and blocks, with deadlines.
class StatusTest : public LoopFixture {
 protected:
  void TearDown() override {
    if (thread_.joinable()) {
      loop_->stop();
      thread_.join();
    }
    server_.reset();
  }
  Status listen(StatusLimits limits = {}) {
    auto opened = StatusServer::open(
        *loop_, path_,
        [this](const std::string& request) -> Result<std::string> {
          if (request == "status") return "{\"state\":" + std::to_string(state_) + "}";
          if (request == "watch") return "{\"state\":" + std::to_string(state_) + ",\"filler\":\"" + filler_ + "\"}";
          if (request == "lines") return std::string("{\n  \"a\": 1\n}\n");
          return fail(Kind::kInvalid, "no such request: \"" + request + "\"");
        },
        limits);
    if (!opened) return std::unexpected(opened.error());
    server_ = std::move(*opened);
    return {};
  }
  void serve(StatusLimits limits = {}) {
    const auto status = listen(limits);
    ASSERT_TRUE(status) << to_string(status.error());
    thread_ = std::thread([this] { loop_->run(); });
  }
  void change(int state) {
    loop_->post([this, state] {
      state_ = state;
      server_->changed();
    });
  }
  static Fd client(const std::string& path) {
    Fd connected(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect_at(connected.get(), path), 0) << std::strerror(errno);
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(connected.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return connected;
  }
  static void say(const Fd& fd, const std::string& text) {
    ASSERT_EQ(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // One line that is not a beat; "" at the end of the connection; "late" if nothing arrives in a minute.
  static std::string hear(const Fd& fd) {
    std::string line;
    char byte = 0;
    for (;;) {
      const auto got = ::recv(fd.get(), &byte, 1, 0);
      if (got < 0) return errno == ECONNRESET ? "" : "late";
      if (got == 0) return line;
      if (byte == '\n' && !line.empty()) return line;
      if (byte != '\n') line += byte;
    }
  }

  Scratch scratch_;
  std::string path_ = scratch_ / "s.sock";
  std::unique_ptr<StatusServer> server_;
  std::thread thread_;
  int state_ = 1;       // loop thread only
  std::string filler_;  // set before serve()
};

TEST_F(StatusTest, AnswersAQuestion) {
  serve();
  EXPECT_EQ(ask(path_, "status", 60s), "{\"state\":1}");
  change(2);
  EXPECT_EQ(ask(path_, "status", 60s), "{\"state\":2}");
}

TEST_F(StatusTest, AnswersAreOneLineEach) {
  serve();
  EXPECT_EQ(ask(path_, "lines", 60s), "{   \"a\": 1 } ");
}

TEST_F(StatusTest, ARefusalIsAnErrorDocument) {
  serve();
  const auto answer = ask(path_, "nonsense", 60s);
  ASSERT_TRUE(answer);
  const auto json = nlohmann::json::parse(*answer, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["error"], "no such request: \"nonsense\"");
}

TEST_F(StatusTest, SeveralQuestionsOnOneConnectionAreAnsweredInOrder) {
  serve();
  const auto fd = client(path_);
  say(fd, "sta");
  say(fd, "tus\r\n\n  nonsense \nstatus\n");
  EXPECT_EQ(hear(fd), "{\"state\":1}");
  EXPECT_THAT(hear(fd), HasSubstr("no such request: \\\"nonsense\\\""));
  EXPECT_EQ(hear(fd), "{\"state\":1}");
}

TEST(Request, IsOfBoundedLengthAndPrintable) {
  EXPECT_EQ(read_request(std::string(kLongestRequest, 'a'))->size(), kLongestRequest);
  EXPECT_EQ(read_request(std::string(kLongestRequest + 1, 'a')).error().kind, Kind::kInvalid);
  const auto escape = read_request("sta\x1b[31mtus");
  ASSERT_FALSE(escape);
  EXPECT_THAT(escape.error().what, HasSubstr("\\x1b"));
}

TEST_F(StatusTest, AClientThatStopsSendingStillGetsItsAnswerAndThenTheEnd) {
  serve();
  const auto fd = client(path_);
  say(fd, "status\n");
  ::shutdown(fd.get(), SHUT_WR);
  EXPECT_EQ(hear(fd), "{\"state\":1}");
  EXPECT_EQ(hear(fd), "");
}

TEST_F(StatusTest, AWatcherIsReportedAtOnceAndAtEveryChange) {
  serve();
  const auto fd = client(path_);
  say(fd, "watch\n");
  EXPECT_THAT(hear(fd), HasSubstr("\"state\":1"));
  change(2);
  EXPECT_THAT(hear(fd), HasSubstr("\"state\":2"));
  loop_->post([this] { server_->changed("{\"part\":3}"); });
  EXPECT_EQ(hear(fd), "{\"part\":3}");
  ::shutdown(fd.get(), SHUT_WR);  // as `echo watch | nc -U` does
  change(3);
  EXPECT_THAT(hear(fd), HasSubstr("\"state\":3"));
}

TEST_F(StatusTest, ASlowWatcherGetsTheNewestStateAndNoBacklog) {
  filler_ = std::string(300'000, 'x');  // more than a socket buffers
  serve();
  const auto fd = client(path_);
  say(fd, "watch\n");
  pollfd first{.fd = fd.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&first, 1, 60'000), 1);
  for (int state = 2; state <= 50; ++state) {
    change(state);
    loop_->post([this] { server_->changed("{\"part\":3}"); });
    (void)ask(path_, "status", 60s);  // the change has been processed
  }
  const auto beginning = [&] { return hear(fd).substr(0, 12); };
  EXPECT_EQ(beginning(), "{\"state\":1,\"");  // whole, although it was blocked half-way
  EXPECT_EQ(beginning(), "{\"state\":50,");
  change(51);
  EXPECT_EQ(beginning(), "{\"state\":51,");
}

TEST_F(StatusTest, AnOverlongRequestIsRefusedAndTheConnectionClosed) {
  serve();
  const auto fd = client(path_);
  say(fd, std::string(kLongestRequest, 'a'));
  say(fd, "a");
  EXPECT_THAT(hear(fd), HasSubstr("8192 bytes"));
  EXPECT_EQ(hear(fd), "");
}

TEST_F(StatusTest, AThousandWatchersComeAndGoWithoutLeaks) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr std::size_t kWatchers = 1000;
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, 2 * kWatchers + 100);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) GTEST_SKIP() << "not enough descriptors allowed here";
  serve();
  const auto open_fds = [] { return Dir::open("/proc/self/fd")->list()->size(); };
  ASSERT_TRUE(ask(path_, "status", 60s));
  const auto before = open_fds();
  for (int round = 0; round < 2; ++round) {
    std::vector<Fd> watchers;
    for (std::size_t i = 0; i < kWatchers; ++i) {
      watchers.push_back(client(path_));
      say(watchers.back(), "watch\n");
    }
    for (const auto& watcher : watchers) ASSERT_THAT(hear(watcher), HasSubstr("state"));
    change(round + 10);
    for (const auto& watcher : watchers) ASSERT_THAT(hear(watcher), HasSubstr(std::to_string(round + 10)));
    EXPECT_GE(open_fds(), 2 * kWatchers);
    watchers.clear();
    // The server notices hang-ups in its own time, and each question has a connection of its own for a moment.
    const auto late = std::chrono::steady_clock::now() + 60s;
    while (open_fds() > before + 1 && std::chrono::steady_clock::now() < late) ASSERT_TRUE(ask(path_, "status", 60s));
    EXPECT_LE(open_fds(), before + 1);
  }
}

TEST_F(StatusTest, TheSocketIsForItsOwnerOnly) {
  ::umask(0);
  ASSERT_TRUE(listen());
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST_F(StatusTest, AServerRemovesOnlyItsOwnSocket) {
  ASSERT_TRUE(listen());
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  const auto successor = listen_at(path_);
  ASSERT_TRUE(successor);
  server_.reset();
  EXPECT_TRUE(Dir::open(scratch_.path())->exists("s.sock"));
}

TEST_F(StatusTest, AStaleSocketIsReplaced) {
  {
    const auto dead = listen_at(path_);  // closed without unlinking, as when a program is killed
    ASSERT_TRUE(dead);
  }
  ASSERT_TRUE(Dir::open(scratch_.path())->exists("s.sock"));
  serve();
  EXPECT_TRUE(ask(path_, "status", 60s));
}

TEST_F(StatusTest, ASocketThatSomebodyAnswersOnIsLeftAlone) {
  serve();
  const auto second = StatusServer::open(*loop_, path_, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, Kind::kConflict);
  EXPECT_TRUE(ask(path_, "status", 60s));
}

TEST_F(StatusTest, ANewerInstanceTakesTheSocketOverAndTheOlderLeavesItThere) {
  ASSERT_TRUE(listen());
  auto newer =
      StatusServer::open(*loop_, path_, [](const std::string&) -> Result<std::string> { return R"({"from":"newer"})"; },
                         {.take_over = true});
  ASSERT_TRUE(newer) << to_string(newer.error());
  server_.reset();
  std::string got;
  const StatusWatcher watcher(*loop_, path_, [&](const std::string& line) {
    got = line;
    if (!line.empty()) loop_->stop();
  });
  loop_->run();
  EXPECT_EQ(got, R"({"from":"newer"})");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}), 1) << "a file is left over";
}

TEST_F(StatusTest, AnOlderInstanceListensAgainWhenTheNewerIsGone) {
  ASSERT_TRUE(listen({.take_over = true, .audit = 20ms}));
  auto newer =
      StatusServer::open(*loop_, path_, [](const std::string&) -> Result<std::string> { return R"({"from":"newer"})"; },
                         {.take_over = true});
  ASSERT_TRUE(newer) << to_string(newer.error());
  newer->reset();
  ASSERT_FALSE(std::filesystem::exists(path_));
  thread_ = std::thread([this] { loop_->run(); });
  const auto came_back = [&] { return ask(path_, "status", 60s); };
  auto answer = came_back();
  for (int i = 0; i < 3000 && !answer; ++i) {
    ::poll(nullptr, 0, 20);
    answer = came_back();
  }
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(*answer, R"({"state":1})");
}

TEST_F(StatusTest, AFileInTheWayIsLeftAlone) {
  ASSERT_TRUE(Dir::open(scratch_.path())->write_atomically("s.sock", "precious"));
  const auto status = listen();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, Kind::kConflict);
  EXPECT_EQ(read_file(path_), "precious");
}

TEST_F(StatusTest, APathThatTheKernelCannotTakeIsExplained) {
  path_ = "/tmp/" + std::string(120, 'a');
  const auto status = listen();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, Kind::kInvalid);
  EXPECT_THAT(status.error().what, HasSubstr("107 bytes"));
}

TEST_F(StatusTest, AskingNobodySaysSo) {
  const auto answer = ask(path_, "status", 60s);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, Kind::kUnavailable);
  EXPECT_THAT(answer.error().what, HasSubstr("is the program running?"));
  EXPECT_EQ(ask(path_, "two\nlines", 60s).error().kind, Kind::kInvalid);
}

TEST_F(StatusTest, AskingAMuteServerEndsAtTheDeadline) {
  ASSERT_TRUE(listen());  // no loop runs
  const auto answer = ask(path_, "status", 30ms);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, Kind::kTimeout);
}

TEST_F(StatusTest, WhateverLiesInThePlaceOfASocketThatIsTakenOverIsReplaced) {
  const std::vector<std::function<void()>> kinds{
      [this] { std::ofstream(path_) << "text"; },
      [this] { ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0); },
      [this] { std::filesystem::create_symlink("/nowhere", path_); },
      [this] { std::filesystem::create_directory(path_); },
      [this] { std::ofstream((std::filesystem::create_directory(path_), path_ + "/kept")) << "text"; },
  };
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    kinds[kind]();
    const auto status = listen({.take_over = true});
    ASSERT_TRUE(status) << kind << ": " << to_string(status.error());
    EXPECT_TRUE(std::filesystem::is_socket(path_)) << kind;
    server_.reset();
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}), 0) << "a file is left over";
}

}  // namespace
}  // namespace tranche::os
