#include "config/choose.h"

#include <gmock/gmock.h>

namespace tranche::config {
namespace choose_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

NamedConfigs set_of(const std::vector<std::string>& names) {
  NamedConfigs set{.where = "ConfigMap gpu/configs"};
  for (const auto& name : names) set.texts.emplace(name, "");
  return set;
}
LabelSeen label(std::string value) {
  LabelSeen seen;
  seen.node = "n1";
  seen.value = std::move(value);
  return seen;
}
std::string said(const std::expected<Choice, Problem>& chosen) {
  return chosen ? "chosen: " + chosen->name : to_string(chosen.error());
}

struct Row {
  const char* what;
  std::vector<std::string> names;
  std::string label;
  ChoiceRules rules;
  std::string name;  // "!" = an error
  ChosenBy by = ChosenBy::kEmpty;
};

// What NVIDIA's config manager does, row by row.
// Promise: config/choose: The choice follows NVIDIA's config manager.
TEST(Choose, DoesWhatNvidiasConfigManagerDoes) {
  const std::vector<Row> rows{
      {"a label that exists", {"a", "b"}, "b", {"a", {"named"}}, "b", ChosenBy::kLabel},
      {"a label that exists beats a default that does not", {"a"}, "a", {"x", {}}, "a", ChosenBy::kLabel},
      {"a label that does not exist", {"a", "b"}, "c", {"a", {"named"}}, "!"},
      {"no label, a default", {"a", "b"}, "", {"b", {"named"}}, "b", ChosenBy::kDefault},
      {"a default that does not exist, whatever the fallbacks", {"a"}, "", {"b", {"single", "empty"}}, "!"},
      {"named", {"a", "default"}, "", {"", {"named", "single"}}, "default", ChosenBy::kNamed},
      {"named finds none, single does", {"a"}, "", {"", {"named", "single"}}, "a", ChosenBy::kSingle},
      {"single among several", {"a", "b"}, "", {"", {"named", "single"}}, "!"},
      {"empty after the others", {"a", "b"}, "", {"", {"named", "single", "empty"}}, "", ChosenBy::kEmpty},
      {"empty first", {"default"}, "", {"", {"empty", "named"}}, "", ChosenBy::kEmpty},
      {"the operator's only fallback", {"default"}, "", {"", {"empty"}}, "", ChosenBy::kEmpty},
      {"no fallbacks", {"default"}, "", {"", {}}, "!"},
      {"another word", {"a", "b"}, "", {"", {"named", "first"}}, "!"},
      {"another word that is not reached", {"a"}, "", {"", {"single", "first"}}, "a", ChosenBy::kSingle},
      {"no configurations", {}, "", {"", {"named", "single"}}, "!"},
  };
  for (const auto& row : rows) {
    const auto chosen = choose(set_of(row.names), label(row.label), row.rules);
    if (row.name == "!") {
      EXPECT_FALSE(chosen) << row.what;
    } else {
      ASSERT_TRUE(chosen) << row.what << ": " << said(chosen);
      EXPECT_EQ(*chosen, (Choice{row.name, row.by})) << row.what;
    }
  }
}

TEST(Choose, SaysWhichNamesThereAreAndWhatToWrite) {
  const auto typo = choose(set_of({"mps-four", "mps-two"}), label("mps-tow"), {});
  EXPECT_EQ(said(typo),
            "label nvidia.com/device-plugin.config of node n1: error: names \"mps-tow\", which ConfigMap gpu/configs "
            "does not have: it has mps-four, mps-two; write for example: kubectl label node n1 "
            "nvidia.com/device-plugin.config=mps-two --overwrite");
  EXPECT_THAT(said(choose(set_of({"a"}), label(""), {"b", {}})), HasSubstr("--default-config: error: names \"b\""));
  EXPECT_THAT(said(choose(set_of({"a", "b"}), label(""), {"", {"fist"}})), HasSubstr("named, single, empty"));
  EXPECT_THAT(said(choose(set_of({"a", "b"}), label(""), {"", {"named"}})), HasSubstr("it has a, b"));
  EXPECT_THAT(said(choose(set_of({}), label("x"), {})), HasSubstr("it has none"));
}

TEST(Choose, EveryWayHasAWordAndIsFoundByIt) {
  for (const auto by : {ChosenBy::kLabel, ChosenBy::kDefault, ChosenBy::kNamed, ChosenBy::kSingle, ChosenBy::kEmpty})
    EXPECT_EQ(enum_of<ChosenBy>(to_string(by)), by);
  EXPECT_FALSE(enum_of<ChosenBy>("by chance"));
}

TEST(Decide, AnUnknownLabelKeepsWhatIsInForceAndLeavesTheDefaultToANodeThatHasNothing) {
  const ChoiceRules rules{"a", {}};
  const auto kept = decide(set_of({"a", "b"}), label("c"), rules, {}, true);
  EXPECT_FALSE(kept.choice);
  ASSERT_THAT(kept.problems, SizeIs(1));
  EXPECT_EQ(kept.problems[0].severity, Severity::kError);
  const auto first = decide(set_of({"a", "b"}), label("c"), rules, {}, false);
  EXPECT_EQ(first.choice, (Choice{"a", ChosenBy::kDefault}));
  EXPECT_EQ(first.problems, kept.problems);
}

TEST(Decide, ALabelThatIsNotKnownIsWhatItWasLastElseNone) {
  LabelSeen unknown = label("");
  unknown.why = "the API server does not answer";
  const ChoiceRules rules{"a", {}};
  const auto as_last = decide(set_of({"a", "b"}), unknown, rules, "b", false);
  EXPECT_EQ(as_last.choice, (Choice{"b", ChosenBy::kLabel}));
  ASSERT_THAT(as_last.problems, SizeIs(1));
  EXPECT_EQ(as_last.problems[0].severity, Severity::kWarning);
  EXPECT_THAT(to_string(as_last.problems[0]), HasSubstr("the API server does not answer"));
  EXPECT_THAT(to_string(as_last.problems[0]), HasSubstr("\"b\" when it was known last"));
  const auto as_none = decide(set_of({"a", "b"}), unknown, rules, {}, false);
  EXPECT_EQ(as_none.choice, (Choice{"a", ChosenBy::kDefault}));
  EXPECT_THAT(as_none.problems, SizeIs(1));
}

TEST(Decide, ConfigurationsThatAreNotThereChangeNothing) {
  NamedConfigs gone = set_of({});
  gone.why = "it was deleted";
  const auto decision = decide(gone, label("a"), {"", {"empty"}}, {}, true);
  EXPECT_FALSE(decision.choice) << "not even for the empty one";
  ASSERT_THAT(decision.problems, SizeIs(1));
  EXPECT_THAT(to_string(decision.problems[0]),
              HasSubstr("ConfigMap gpu/configs: error: cannot be used: it was deleted"));
}

TEST(Decide, AMessageNamesTwentyConfigurations) {
  std::vector<std::string> names;
  for (int i = 0; i < 10'000; ++i) names.push_back("c" + std::to_string(i));
  const auto decision = decide(set_of(names), label("x"), {}, {}, true);
  ASSERT_THAT(decision.problems, SizeIs(1));
  EXPECT_THAT(decision.problems[0].what, HasSubstr("c1014 and 9980 more"));
}

TEST(Decide, WhatIsAllWellHasNoProblems) {
  const auto decision = decide(set_of({"a", "b"}), label("b"), {"a", {}}, {}, true);
  EXPECT_EQ(decision.choice, (Choice{"b", ChosenBy::kLabel}));
  EXPECT_THAT(decision.problems, IsEmpty());
}

}  // namespace choose_test
}  // namespace tranche::config
