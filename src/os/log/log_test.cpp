#include "os/log/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/text.h"

namespace tranche::log {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// What `act` writes to stderr, captured in a temporary file.
template <class Act>
std::string stderr_of(Act act) {
  ::testing::internal::CaptureStderr();
  act();
  return ::testing::internal::GetCapturedStderr();
}

TEST(LogText, PlainValuesStandBareAndOthersAreQuoted) {
  EXPECT_EQ(text_of("mps.serving", {{"gpu", "GPU-1"}, {"pid", 12}, {"share", 0.5}, {"adopted", false}}),
            "mps.serving  gpu=GPU-1 pid=12 share=0.5 adopted=false");
  EXPECT_EQ(text_of("x", {{"a", "two words"}, {"b", ""}, {"c", "k=v"}}), "x  a=\"two words\" b=\"\" c=\"k=v\"");
  EXPECT_EQ(text_of("x", {}), "x");
}

TEST(LogText, AValueCannotForgeALineOrAField) {
  const auto line = text_of("x", {{"pod", "a\n12:00:00.000 error fake  b=\"c\"\x1b[31m"}});
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  EXPECT_EQ(line, "x  pod=\"a\\n12:00:00.000 error fake  b=\\\"c\\\"\\u001b[31m\"");
}

TEST(LogText, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(text_of("x", {{"name", "caf\xc3\xa9"}}), "x  name=caf\xc3\xa9");
  EXPECT_EQ(text_of("x", {{"name", "a\xff\x62"}}), "x  name=\"a\xef\xbf\xbd\x62\"");
}

TEST(LogText, ErrorsAreWrittenOut) {
  EXPECT_EQ(text_of("x", {{"why", Error{Kind::kTimeout, "no answer", "/run/a", 0}}}), "x  why=\"no answer [/run/a]\"");
}

TEST(LogText, LongValuesAreCutBetweenCharacters) {
  std::string value = std::string(4095, 'a') + "\xc3\xa9 and more";
  EXPECT_EQ(text_of("x", {{"v", value}}), "x  v=" + std::string(4095, 'a') + "…");
}

TEST(LogJson, OneObjectPerEventWithOurKeysFirst) {
  const auto line = json_of(WallTime{std::chrono::milliseconds(1)}, Level::kWarning, "gpu.lost",
                            {{"gpu", "GPU-1"}, {"xid", 79u}, {"back", true}});
  EXPECT_EQ(
      line,
      R"({"time":"1970-01-01T00:00:00.001Z","level":"warning","event":"gpu.lost","gpu":"GPU-1","xid":79,"back":true})");
}

TEST(LogJson, HostileValuesStayInsideTheirString) {
  const auto line = json_of(WallTime{}, Level::kInfo, "x", {{"v", "\",\"level\":\"error\"\n\xff"}, {"level", "fake"}});
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const auto parsed = nlohmann::json::parse(line, nullptr, false);
  ASSERT_TRUE(parsed.is_object());
  EXPECT_EQ(parsed["level"], "info");
  EXPECT_EQ(parsed["level_"], "fake");
  EXPECT_EQ(parsed["v"], "\",\"level\":\"error\"\n\xef\xbf\xbd");
}

TEST(Log, TextLinesHaveTimeLevelEventAndFields) {
  configure(Format::kText, Level::kInfo);
  const auto text = stderr_of([] {
    info("mps.serving", {{"pid", 12}});
    warning("gpu.lost");
    debug("unseen");
  });
  const auto lines = lines_of(text);
  ASSERT_EQ(lines.size(), 2u) << text;
  EXPECT_THAT(std::string(lines[0]), MatchesRegex("[0-9:]+[.][0-9][0-9][0-9] info  mps[.]serving  pid=12"));
  EXPECT_THAT(std::string(lines[1]), MatchesRegex("[0-9:]+[.][0-9][0-9][0-9] warn  gpu[.]lost"));
}

TEST(Log, BracesInAValueAreNotAFormat) {
  configure(Format::kText, Level::kInfo);
  EXPECT_THAT(stderr_of([] { info("x", {{"v", "{}{0}%n"}}); }), HasSubstr("x  v={}{0}%n\n"));
}

TEST(Log, LinesFromManyThreadsStayWhole) {
  configure(Format::kJson, Level::kDebug);
  const auto text = stderr_of([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 200; ++i) debug("tick", {{"thread", t}, {"i", i}, {"filler", std::string(200, 'x')}});
      });
    }
    for (auto& thread : threads) thread.join();
  });
  const auto lines = lines_of(text);
  ASSERT_EQ(lines.size(), 800u);
  for (const auto line : lines) ASSERT_TRUE(nlohmann::json::accept(line)) << line;
}

// A pipe in place of stderr.
class StalledStderr {
 public:
  StalledStderr() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    reader_ = ends[0];
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    ::fcntl(reader_, F_SETFL, O_NONBLOCK);
  }
  ~StalledStderr() {
    restore();
    ::close(reader_);
  }
  void restore() {
    if (saved_ < 0) return;
    ::dup2(saved_, STDERR_FILENO);
    ::close(std::exchange(saved_, -1));
  }
  bool wait() const {
    pollfd readable{.fd = reader_, .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, 10'000) == 1;
  }
  std::string read() const {
    std::string text;
    char buffer[65536];
    for (ssize_t got = 0; (got = ::read(reader_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    return text;
  }

 private:
  int reader_ = -1;
  int saved_ = -1;
};

TEST(Log, AReaderThatDoesNotReadStopsNobodyAndLinesThatAreLostAreCounted) {
  configure(Format::kJson, Level::kInfo);
  StalledStderr pipe;
  const int flags = ::fcntl(STDERR_FILENO, F_GETFL);
  const std::string filler(1000, 'x');
  for (int i = 0; i < 1000; ++i) info("line", {{"i", i}, {"filler", filler}});  // 64 KiB of pipe, 256 KiB of queue
  EXPECT_EQ(::fcntl(STDERR_FILENO, F_GETFL), flags) << "other processes share the description";
  std::string text = pipe.read();
  for (int i = 0; i < 20; ++i) {
    flush();
    text += pipe.read();
  }
  pipe.restore();
  const auto lines = lines_of(text);
  for (const auto line : lines) ASSERT_TRUE(nlohmann::json::accept(line)) << line;
  ASSERT_GT(lines.size(), 250u);
  const auto last = nlohmann::json::parse(lines.back());
  EXPECT_EQ(last["event"], "log.lines_dropped");
  EXPECT_EQ(last["lines"].get<std::uint64_t>() + lines.size() - 1, 1000u);
  EXPECT_EQ(dropped_lines(), last["lines"].get<std::uint64_t>());
  EXPECT_EQ(nlohmann::json::parse(lines[0])["i"], 0) << "the oldest lines stay";
}

TEST(Log, WhatWaitsIsWrittenAtTheEnd) {
  configure(Format::kJson, Level::kInfo);
  std::string text;
  {
    StalledStderr pipe;
    for (int i = 0; i < 100; ++i) info("line", {{"i", i}, {"filler", std::string(1000, 'x')}});
    std::thread reader([&] {
      while (text.find("\"i\":99") == std::string::npos && pipe.wait()) text += pipe.read();
    });
    configure(Format::kText, Level::kInfo);  // writes the queue as the program's exit does
    reader.join();
  }
  EXPECT_EQ(lines_of(text).size(), 100u);
}

}  // namespace
}  // namespace tranche::log
