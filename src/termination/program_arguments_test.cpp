#include "termination/program_arguments.h"

#include <gmock/gmock.h>

#include <vector>

namespace tranche::stopping {
namespace {

DrainArguments drain_arguments(std::vector<const char*> argv) {
  argv.insert(argv.begin(), "tranche-drain");
  return read_drain_arguments(argv);
}

TEST(DrainArgumentsOf, AHookWithoutACommand) {
  const auto arguments = drain_arguments({});
  EXPECT_EQ(arguments.what, DrainArguments::Do::kDrain);
  EXPECT_EQ(arguments.socket, kDrainSocketInContainer);
  EXPECT_EQ(arguments.timeout_ms, 5000);
  EXPECT_EQ(arguments.command_at, 0);
}

TEST(DrainArgumentsOf, AWrappedHookKeepItsWordsWhateverTheyAre) {
  const auto arguments = drain_arguments({"--timeout=300ms", "--socket", "/s", "--strict", "--", "--help", "--", "x"});
  EXPECT_EQ(arguments.what, DrainArguments::Do::kDrain);
  EXPECT_EQ(arguments.timeout_ms, 300);
  EXPECT_EQ(arguments.socket, "/s");
  EXPECT_TRUE(arguments.strict);
  EXPECT_EQ(arguments.command_at, 6);
  EXPECT_EQ(drain_arguments({"--"}).command_at, 0);
}

TEST(DrainArgumentsOf, AMistakeNameTheWord) {
  for (const auto& argv : std::vector<std::vector<const char*>>{{"sh"},
                                                                {"--timeout", "5"},
                                                                {"--timeout"},
                                                                {"--timeout=0s"},
                                                                {"--timeout=11m"},
                                                                {"--socket", "here"},
                                                                {"-x"}}) {
    const auto arguments = drain_arguments(argv);
    EXPECT_EQ(arguments.what, DrainArguments::Do::kRefuse) << argv[0];
    EXPECT_TRUE(arguments.refused.starts_with("-") || arguments.refused == "sh") << arguments.refused;
  }
}

TEST(Answers, OnlyTheObjectsOwnOkCounts) {
  EXPECT_TRUE(says_ok(R"({"ok":true,"clients":[],"tookMs":3})"));
  EXPECT_TRUE(says_ok("{\"clients\":[{\"ok\":false}], \"ok\" : true }\n"));
  for (const char* line :
       {"", "{}", "ok", R"({"ok":false})", R"({"clients":[{"ok":true}]})", R"({"note":"\"ok\":true"})", R"({"ok":true)",
        R"({"ok":"true"})", R"({"ok":truely})", R"("ok":true)", R"({"error":"ok"})"})
    EXPECT_FALSE(says_ok(line)) << line;
}

TEST(Durations, AreWholeNumbersWithAUnit) {
  EXPECT_EQ(milliseconds_of("5s"), 5000);
  EXPECT_EQ(milliseconds_of("10m"), 600'000);
  for (const char* text : {"", "s", "5", "-5s", "5h", "601s", "99999999999999999999s", "1.5s"})
    EXPECT_EQ(milliseconds_of(text), 0) << text;
}

}  // namespace
}  // namespace tranche::stopping
