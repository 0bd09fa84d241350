#include "host/log/log.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/text.h"
#include "host/log/render.h"

namespace tranche::log {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// What `act` writes to stderr, through a temporary file in its place.
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

}  // namespace
}  // namespace tranche::log
