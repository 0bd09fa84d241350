#include <gmock/gmock.h>

#include "mig/configuration.h"

namespace tranche::mig {
namespace hooks_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MigHooks, EveryStageIsRead) {
  auto parsed = parse_hooks_file(R"(version: v1
hooks:
  apply-start:
  - workdir: /etc/nvidia-mig-manager
    command: /bin/bash
    args: ["-c", "source hooks.sh; apply-start ${MIG_PARTED_SELECTED_CONFIG}"]
    envs: {LEVEL: 3}
  pre-apply-mode: [{command: first}, {command: second}]
  pre-apply-config:
  apply-exit: [{command: last, args: []}]
)",
                                 "h.yaml");
  ASSERT_THAT(parsed.problems, IsEmpty()) << to_string(parsed.problems[0]);
  EXPECT_EQ(parsed.hooks["apply-start"],
            (std::vector<Hook>{{"/bin/bash",
                                {"-c", "source hooks.sh; apply-start ${MIG_PARTED_SELECTED_CONFIG}"},
                                {{"LEVEL", "3"}},
                                "/etc/nvidia-mig-manager"}}));
  EXPECT_EQ(parsed.hooks["pre-apply-mode"].size(), 2u);
  EXPECT_THAT(parsed.hooks["pre-apply-config"], IsEmpty());
  EXPECT_EQ(parsed.hooks["apply-exit"].size(), 1u);
}

TEST(MigHooks, WhatIsWrongHasAPlace) {
  const auto problems_of = [](std::string_view text) {
    std::vector<std::string> all;
    for (const auto& problem : parse_hooks_file(text, "h").problems) all.push_back(to_string(problem));
    return all;
  };
  EXPECT_THAT(problems_of(""), ElementsAre(HasSubstr("must be a mapping")));
  EXPECT_THAT(problems_of("hooks: {}"), ElementsAre(HasSubstr("version: is missing")));
  EXPECT_THAT(problems_of("version: v2"), ElementsAre(HasSubstr("h:1:10: error: version: must be v1")));
  EXPECT_THAT(problems_of("version: v1\nhooks: {apply-stop: []}"),
              ElementsAre(HasSubstr("h:2:9: error: hooks.apply-stop: is not a key")));
  EXPECT_THAT(problems_of("version: v1\nhooks: {apply-exit: {}}"),
              ElementsAre(HasSubstr("must be a list of commands")));
  EXPECT_THAT(problems_of("version: v1\nhooks: {apply-exit: [{args: [x]}]}"),
              ElementsAre(HasSubstr("apply-exit[0].command: is missing")));
  EXPECT_THAT(problems_of("version: v1\nhooks: {apply-exit: [{command: a, args: b}]}"),
              ElementsAre(HasSubstr("args: must be a list")));
}

}  // namespace hooks_test
}  // namespace tranche::mig
