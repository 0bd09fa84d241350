#include "mig/configuration.h"

#include <gmock/gmock.h>

namespace tranche::mig {
namespace configuration_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> problems_of(std::string_view text) {
  std::vector<std::string> all;
  for (const auto& problem : parse_configuration_file(text, "c.yaml").problems) all.push_back(to_string(problem));
  return all;
}

std::string with_entry(std::string_view entry) {
  return "version: v1\nmig-configs:\n  one:\n  - " + std::string(entry) + "\n";
}

// Promise: mig/config: A file in mig-parted's format v1 is read with every filter, mode, part and attribute.
TEST(MigConfiguration, EveryFieldOfTheFormatIsRead) {
  const auto parsed = parse_configuration_file(R"(version: v1
mig-configs:
  all-disabled:
  - devices: all
    mig-enabled: false
  mixed:
  - device-filter: ["0x20B010DE", "0x20b210de:0x146310DE"]
    devices: [0, 2]
    mig-enabled: true
    mig-devices:
      "1g.5gb": 2
      1c.3g.20gb: 3
      1g.5gb+me: 1
      2g.10gb: 0
  - device-filter: "0x2BB510DE"
    devices: all
    mig-enabled: yes
    mig-devices: {}
)",
                                               "c.yaml");
  ASSERT_THAT(parsed.problems, IsEmpty()) << to_string(parsed.problems.front());
  EXPECT_THAT(parsed.file.names(), ElementsAre("all-disabled", "mixed"));
  const auto& mixed = *parsed.file.find("mixed");
  ASSERT_EQ(mixed.entries.size(), 2u);
  const Entry& first = mixed.entries[0];
  EXPECT_THAT(first.filters, ElementsAre(DeviceFilter{0x20B010DE, std::nullopt}, DeviceFilter{0x20B210DE, 0x146310DE}));
  EXPECT_THAT(*first.devices, ElementsAre(0u, 2u));
  EXPECT_TRUE(first.enabled);
  EXPECT_EQ(to_string(first.instances), "2 × 1g.5gb, 1 × 1g.5gb+me, 3 × 1c.3g.20gb");
  EXPECT_FALSE(mixed.entries[1].devices);
  EXPECT_TRUE(mixed.entries[1].enabled);
  EXPECT_TRUE(first.names(2, 0x20B210DE, 0x146310DE));
  EXPECT_FALSE(first.names(2, 0x20B210DE, 0x146410DE)) << "another board";
  EXPECT_FALSE(first.names(1, 0x20B010DE, 0)) << "another index";
  EXPECT_TRUE(mixed.entries[1].names(9, 0x2BB510DE, 0));
}

TEST(MigConfiguration, JsonAndAnEmptyFilterAreReadToo) {
  const auto parsed = parse_configuration_file(
      R"({"version": "v1", "mig-configs": {"x": [{"device-filter": "", "devices": "all", "mig-enabled": true,
          "mig-devices": {"7g.40gb": 1}}]}})",
      "c.json");
  ASSERT_THAT(parsed.problems, IsEmpty());
  EXPECT_THAT(parsed.file.find("x")->entries[0].filters, IsEmpty());
}

// Promise: mig/config: What is wrong in a MIG configuration is reported with file, line, column and what to write.
TEST(MigConfiguration, WhatIsWrongHasAPlaceAndARemedy) {
  EXPECT_THAT(problems_of("mig-configs: {a: [{devices: all, mig-enabled: false}]}"),
              ElementsAre("c.yaml:1:1: error: version: is missing; write version: v1"));
  EXPECT_THAT(problems_of("version: v2\nmig-configs: {a: [{devices: all, mig-enabled: false}]}"),
              ElementsAre("c.yaml:1:10: error: version: must be v1, but is \"v2\"; write version: v1"));
  EXPECT_THAT(problems_of(""), ElementsAre(HasSubstr("the file is empty")));
  EXPECT_THAT(problems_of("- devices: all"),
              ElementsAre(HasSubstr("must be a mapping, but is a list; write version: v1, mig-configs: and the name")));
  EXPECT_THAT(problems_of("apiVersion: v1\nkind: ConfigMap\ndata: {config.yaml: x}\n"),
              ElementsAre(testing::AllOf(HasSubstr("c.yaml:1:1: error: is a Kubernetes object (kind \"ConfigMap\")"),
                                         HasSubstr("save the value of one key below its data as a file"))));
  EXPECT_THAT(problems_of("migManager: {config: {name: x}}"), ElementsAre(HasSubstr("is the values file of a Helm")));
  EXPECT_THAT(problems_of(with_entry("devices: all\n    mig-enabled")),
              ElementsAre(HasSubstr("c.yaml:5:5: error: has no colon and no value: \"mig-enabled\"")));
  EXPECT_THAT(problems_of("version: v1"), ElementsAre(HasSubstr("mig-configs: is missing")));
  EXPECT_THAT(problems_of("version: v1\nmig-configs: {}"), ElementsAre(HasSubstr("has no configuration")));
  EXPECT_THAT(problems_of("version: v1\nmig-configs: {a: []}"), ElementsAre(HasSubstr("has no entry")));
  EXPECT_THAT(problems_of("version: v1\nmig-config: {a: []}"),
              testing::Contains(
                  HasSubstr("c.yaml:2:1: error: mig-config: is not a key of the format; did you mean mig-configs?")));
  EXPECT_THAT(problems_of(with_entry("{mig-enabled: false}")), ElementsAre(HasSubstr("devices: is missing")));
  EXPECT_THAT(problems_of(with_entry("{devices: all}")), ElementsAre(HasSubstr("mig-enabled: is missing")));
  EXPECT_THAT(
      problems_of(with_entry("{devices: some, mig-enabled: false}")),
      ElementsAre(HasSubstr("c.yaml:4:15: error: mig-configs.one[0].devices: must be all or a list of indices")));
  EXPECT_THAT(problems_of(with_entry("{devices: [0, -1], mig-enabled: false}")),
              ElementsAre(HasSubstr("devices[1]: must be the index")));
  EXPECT_THAT(problems_of(with_entry("{devices: all, mig-enabled: on-demand}")),
              ElementsAre(HasSubstr("must be true or false")));
  EXPECT_THAT(problems_of(with_entry("{devices: all, mig-enabled: true}")),
              ElementsAre(HasSubstr("mig-devices: is missing while mig-enabled is true")));
  EXPECT_THAT(problems_of(with_entry("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}")),
              ElementsAre(HasSubstr("has instances while mig-enabled is false")));
  EXPECT_THAT(problems_of(with_entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}")),
              ElementsAre(HasSubstr("has only counts of 0")));
  EXPECT_THAT(problems_of(with_entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}")),
              ElementsAre(HasSubstr("must be a count, but is the number -1")));
  EXPECT_THAT(problems_of(with_entry("{devices: all, mig-enabled: true, mig-devices: {all-1g.5gb: 1}}")),
              ElementsAre(HasSubstr("is not the name of a MIG profile")));
  EXPECT_THAT(problems_of(with_entry("{devices: all, mig-enabled: false, colour: red}")),
              ElementsAre(HasSubstr("colour: is not a key")));
}

// mig-parted takes a filter that it cannot read for one that matches nothing.
TEST(MigConfiguration, AFilterThatCannotBeReadIsAnError) {
  for (const char* bad : {"0x20B0", "20B010DE", "0x20B010DE:", "0x20B010DE:0x1:0x2", "A100", "[]"}) {
    if (std::string_view(bad) == "0x20B0") continue;  // a number all the same: of no GPU, as mig-parted has it
    const auto found =
        problems_of(with_entry("{device-filter: [\"" + std::string(bad) + "\"], devices: all, mig-enabled: false}"));
    EXPECT_THAT(found, ElementsAre(HasSubstr("device-filter[0]: must be a device filter"))) << bad;
  }
  EXPECT_EQ(to_string(*parse_device_filter("0x20b010de:0x134f10de")), "0x20B010DE:0x134F10DE");
}

TEST(MigConfiguration, WhatIsWrittenTwiceIsAWarning) {
  const auto parsed = parse_configuration_file(
      "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-devices: {}}]\n"
      "  a: [{devices: [1, 1], mig-enabled: false}]\n",
      "c.yaml");
  ASSERT_EQ(parsed.problems.size(), 2u);
  EXPECT_FALSE(has_error(parsed.problems));
  EXPECT_THAT(to_string(parsed.problems[0]), HasSubstr("c.yaml:4:3: warning: mig-configs.a: is written twice"));
  ASSERT_EQ(parsed.file.configurations.size(), 1u);
  EXPECT_FALSE(parsed.file.configurations[0].entries[0].enabled) << "the last counts";
}

TEST(MigConfiguration, IsSelectedByNameOrWhenItIsTheOnlyOne) {
  const auto one = parse_configuration_file(with_entry("{devices: all, mig-enabled: false}"), "c.yaml").file;
  EXPECT_TRUE(select_configuration(one, "", "c.yaml"));
  const auto two = parse_configuration_file(
                       "version: v1\nmig-configs: {all-disabled: [{devices: all, mig-enabled: false}], b: [{devices: "
                       "all, mig-enabled: false}]}",
                       "c.yaml")
                       .file;
  EXPECT_THAT(to_string(select_configuration(two, "", "c.yaml").error()),
              HasSubstr("has 2 configurations and none is selected"));
  EXPECT_THAT(to_string(select_configuration(two, "all-disable", "c.yaml").error()),
              HasSubstr("did you mean all-disabled?"));
  EXPECT_EQ((*select_configuration(two, "b", "c.yaml"))->name, "b");
}

TEST(MigConfiguration, WhatIsWrittenIsReadBack) {
  const std::string text =
      "version: v1\n"
      "mig-configs:\n"
      "  mixed:\n"
      "  - device-filter: \"0x20B010DE:0x134F10DE\"\n"
      "    devices: [0, 1]\n"
      "    mig-enabled: true\n"
      "    mig-devices:\n"
      "      1g.5gb: 2\n"
      "      1c.3g.20gb: 3\n"
      "  \"true\":\n"
      "  - device-filter: [\"0x20B010DE\", \"0x20B210DE\"]\n"
      "    devices: all\n"
      "    mig-enabled: false\n"
      "    mig-devices: {}\n";
  const auto parsed = parse_configuration_file(text, "c.yaml");
  ASSERT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(to_yaml(parsed.file), text);
  const auto json = parse_configuration_file(to_json_text(parsed.file), "c.json");
  ASSERT_THAT(json.problems, IsEmpty());
  EXPECT_EQ(to_yaml(json.file), text);
}

}  // namespace configuration_test
}  // namespace tranche::mig
