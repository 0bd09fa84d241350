#include "config/resolve.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::config {
namespace report_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

Resolved resolved(const std::string& file, const GivenFlags& flags = {}, const Environment& environment = {}) {
  return resolve(parse(file, "c.yaml"), Program::kDevicePlugin, {flags, environment});
}

TEST(ReportTest, ProblemsAreLinesWithASumBelow) {
  const auto report = resolved("flags: {migStrategy: x, foo: 1, failOnInitError: 2}");
  EXPECT_THAT(problems_text("c.yaml", report.problems),
              AllOf(HasSubstr("c.yaml:1:22: error: flags.migStrategy: must be"), HasSubstr("warning: flags.foo: "),
                    EndsWith("\nc.yaml: 2 errors, 1 warning\n")));
  EXPECT_EQ(problems_text("c.yaml", {}), "c.yaml: no problems\n");
  EXPECT_EQ(problems_text("", {}), "the configuration (no file): no problems\n");
}

TEST(ReportTest, ExplainsEveryValueWithItsPlace) {
  const auto report = resolved(
      "flags:\n  gfd: {sleepInterval: 5s}\n  mpsRoot: /m\nsharing: {timeSlicing: {resources: "
      "[{name: gpu, replicas: 3}]}}\n",
      {{"mig-strategy", {"single"}}}, {{"PASS_DEVICE_SPECS", "1"}});
  const std::string table = explained_text(report.explained);
  std::map<std::string, std::vector<std::string>> rows;
  for (const std::string_view line : lines_of(table)) {
    const auto words = words_of(line);
    rows[std::string(words.front())] = {words.begin() + 1, words.end()};
  }
  EXPECT_THAT(rows["SETTING"], ElementsAre("VALUE", "FROM"));
  EXPECT_THAT(rows["flags.migStrategy"], ElementsAre("single", "--mig-strategy"));
  EXPECT_THAT(rows["flags.plugin.passDeviceSpecs"], ElementsAre("true", "$PASS_DEVICE_SPECS"));
  EXPECT_THAT(rows["flags.gfd.sleepInterval"], ElementsAre("5s", "c.yaml:2:24"));
  EXPECT_THAT(rows["flags.mpsRoot"], ElementsAre("/m", "c.yaml:3:12"));
  EXPECT_THAT(rows["flags.useNodeFeatureAPI"], ElementsAre("true", "default"));
  EXPECT_THAT(rows["imex.channelIDs"], ElementsAre("\"\"", "default"));
  EXPECT_THAT(rows["sharing.timeSlicing.resources"], ElementsAre("nvidia.com/gpu", "in", "3", "c.yaml:4:37"));
}

TEST(ReportTest, JsonHasProblemsAndSettings) {
  const auto report = resolved("flags: {migStrategi: single}", {}, {{"MIG_STRATEGY", "mixed"}});
  const std::string json = json_text(report_json("c.yaml", report.problems, &report.explained), 2);
  EXPECT_THAT(json, AllOf(HasSubstr("\"file\": \"c.yaml\""), HasSubstr("\"usable\": true"),
                          HasSubstr("\"severity\": \"warning\""), HasSubstr("\"column\": 9"),
                          HasSubstr("\"remedy\": \"did you mean migStrategy?\""), HasSubstr("\"source\": \"variable\""),
                          HasSubstr("\"where\": \"$MIG_STRATEGY\"")));
  EXPECT_THAT(json_text(report_json("", {}, nullptr), 2),
              AllOf(HasSubstr("\"problems\": []"), Not(HasSubstr("settings"))));
}

TEST(ReportTest, TheLineForTheLogHasOnlyWhatIsGiven) {
  EXPECT_EQ(given_line(resolved("").explained), "");
  EXPECT_EQ(given_line(resolved("flags:\n  mpsRoot: /m\n", {}, {{"MIG_STRATEGY", "mixed"}}).explained),
            "flags.migStrategy=mixed ($MIG_STRATEGY), flags.mpsRoot=/m (c.yaml:2:12)");
}

}  // namespace report_test
}  // namespace tranche::config
