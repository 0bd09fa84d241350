// The unit test tables of NVIDIA's configuration package, row by row, as new inputs by the same rules. Those tests use
// single types; here whole files are tested, because Tranche does not have such types.
// docs/compatibility/configuration.md lists the differences and their reasons.
#include <gmock/gmock.h>

#include "config/names.h"
#include "config/parse/parse_fixture.h"
#include "config/resolve.h"

namespace tranche::config {
namespace replayed_test {

using namespace fixture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

const std::string kUuid = "5e1c0f6a-7b21-4d0e-9a3b-0c2d4e6f8a10";

std::string sharing_of_entry(const std::string& entry) {
  return R"({"sharing": {"timeSlicing": {"resources": [)" + entry + "]}}}";
}

// Flags as read: 10 rows.
TEST(Replayed, FlagsAreRead) {
  EXPECT_EQ(accepted(R"({"flags": })"), Config{})
      << "nothing at all is an error of a JSON decoder, and absence in YAML";
  EXPECT_EQ(accepted(R"({"flags": {}})"), Config{});
  EXPECT_EQ(accepted(R"({"flags": {"gfd": {}}})"), Config{});
  const auto interval = [](const std::string& value) {
    return accepted(R"({"flags": {"gfd": {"sleepInterval": )" + value + "}}}").flags.gfd.sleep_interval;
  };
  EXPECT_EQ(interval("0"), Duration(0));
  EXPECT_EQ(interval("\"0s\""), Duration(0));
  EXPECT_EQ(interval("7"), Duration(7)) << "nanoseconds";
  EXPECT_EQ(interval("\"7s\""), Duration(7s));
  EXPECT_EQ(interval("\"infinite\""), Duration::max());
  const auto strategies = [](const std::string& value) {
    return accepted(R"({"flags": {"plugin": {"deviceListStrategy": )" + value + "}}}")
        .flags.plugin.device_list_strategy;
  };
  EXPECT_THAT(strategies("\"volume-mounts\""), ElementsAre(ListStrategy::kVolumeMounts));
  EXPECT_THAT(strategies(R"(["volume-mounts", "cdi-cri"])"),
              ElementsAre(ListStrategy::kVolumeMounts, ListStrategy::kCdiCri));
}

// Flags as printed: 4 rows. NVIDIA prints null for settings that are not given; here the effective value is printed.
TEST(Replayed, FlagsArePrinted) {
  const auto printed = [](const std::string& text) { return render_line(accepted(text)); };
  EXPECT_THAT(printed("{}"), HasSubstr(R"("flags":{"migStrategy":"none","failOnInitError":true,)"));
  for (const auto& [given, shown] : {std::pair{"0", "0s"}, std::pair{"7", "7ns"}, std::pair{"infinite", "infinite"}})
    EXPECT_THAT(
        printed(std::string("flags: {gfd: {sleepInterval: ") + given + "}}"),
        HasSubstr(std::string(R"("gfd":{"oneshot":false,"noTimestamp":false,"sleepInterval":")") + shown + "\""))
        << given;
}

// IMEX: 6 rows, two of which are the same.
TEST(Replayed, ImexChannelsAreRead) {
  for (const char* none : {"{}", R"({"channelIDs": null})", R"({"channelIDs": []})"})
    EXPECT_FALSE(accepted(std::string(R"({"imex": )") + none + "}").imex.channel) << none;
  EXPECT_TRUE(accepted(R"({"imex": {"channelIDs": [0]}})").imex.channel);
  EXPECT_TRUE(refused(R"({"imex": {"channelIDs": [2]}})"));
}

// A selection of devices as read: 20 rows. SharingTest tests that it is ignored afterwards.
TEST(Replayed, DeviceSelectionsAreRead) {
  struct Row {
    std::string value;
    bool good;
  };
  for (const Row& row : {Row{"", false},  // present and empty
                         Row{R"("some")", false},
                         Row{"-3", false},
                         Row{"3.0", true},  // an error in raw JSON, but valid in YAML, which NVIDIA's programs read
                         Row{"[-2]", false},
                         Row{R"(["-2"])", false},
                         Row{R"(["no-UUID"])", false},
                         Row{R"(["GPU-5"])", false},
                         Row{R"(["MIG-5"])", false},
                         Row{R"(["MIG-GPU-)" + kUuid + R"("])", false},
                         Row{R"("all")", true},
                         Row{"3", true},
                         Row{"[1]", true},
                         Row{R"(["1"])", true},
                         Row{R"(["1:0"])", true},
                         Row{R"(["GPU-)" + kUuid + R"("])", true},
                         Row{R"(["MIG-)" + kUuid + R"("])", true},
                         Row{R"(["MIG-GPU-)" + kUuid + R"(/1/0"])", true},
                         Row{R"([1, "1:0", "GPU-)" + kUuid + R"("])", true},
                         Row{R"(["1", "1:0", "GPU-)" + kUuid + R"("])", true}})
    EXPECT_EQ(refused(sharing_of_entry(R"({"name": "gpu", "replicas": 2, "devices": )" + row.value + "}")), !row.good)
        << row.value;
}

// A selection as printed: 4 rows. The only effective selection is all devices, so none is printed.
TEST(Replayed, DeviceSelectionsAreNotPrinted) {
  for (const std::string& devices : {std::string("all"), std::string("3"), "[\"0\", \"0:0\", GPU-" + kUuid + "]"}) {
    const Config config = accepted(sharing_of_entry("{name: gpu, replicas: 2, devices: " + devices + "}"));
    EXPECT_TRUE(std::holds_alternative<AllDevices>(config.sharing.resources[0].devices)) << devices;
    EXPECT_THAT(render_line(config), HasSubstr(R"("resources":[{"name":"nvidia.com/gpu","replicas":2}])")) << devices;
  }
  EXPECT_TRUE(refused(sharing_of_entry("{name: gpu, replicas: 2, devices: }"))) << "an empty one cannot be written";
}

// One shared resource: 13 rows. Several of NVIDIA's fail because of a surplus comma; these fail by the rule.
TEST(Replayed, SharedResourcesAreRead) {
  struct Row {
    const char* entry;
    const char* says;  // "" = accepted
  };
  for (const Row& row : {
           Row{"", "no resources specified"},
           Row{"{}", "has no name"},
           Row{R"({"name": "some"})", "has no replicas"},
           Row{R"({"name": "some", "devices": "all"})", "has no replicas"},
           Row{R"({"name": "some", "devices": "all", "rename": "some-shared"})", "has no replicas"},
           Row{R"({"name": "some", "devices": "all", "replicas": 2})", ""},
           Row{R"({"name": "some", "devices": "all", "replicas": 2, "rename": "some"})", ""},
           Row{R"({"name": "some", "replicas": -1})", "must be 2 or more, but is -1"},
           Row{R"({"name": "some", "replicas": 0})", "must be 2 or more, but is 0"},
           Row{R"({"name": "some", "replicas": 2})", ""},
           Row{R"({"name": "some", "replicas": 2, "rename": "some-shared"})", ""},
           Row{R"({"name": "$some$", "replicas": 2, "rename": "some-shared"})", "is not a resource name"},
           Row{R"({"name": "some", "replicas": 2, "rename": "$some$"})", "is not a resource name"},
       }) {
    const Parsed parsed = parse(sharing_of_entry(row.entry), "c");
    if (std::string_view(row.says).empty()) {
      ASSERT_EQ(parsed.config.sharing.resources.size(), 1u) << row.entry;
      EXPECT_EQ(parsed.config.sharing.resources[0].name, "nvidia.com/some");
      EXPECT_EQ(parsed.config.sharing.resources[0].replicas, 2u);
      EXPECT_FALSE(has_error(parsed.problems)) << row.entry;
      continue;
    }
    ASSERT_TRUE(has_error(parsed.problems)) << row.entry;
    EXPECT_THAT(to_string(parsed.problems.front()), HasSubstr(row.says)) << row.entry;
  }
}

// Lists of them: 6 rows.
TEST(Replayed, ListsOfSharedResourcesAreRead) {
  const auto sharing = [](const std::string& value) { return R"({"sharing": {"timeSlicing": )" + value + "}}"; };
  EXPECT_TRUE(refused(sharing("")));
  EXPECT_TRUE(refused(sharing("{}")));
  EXPECT_TRUE(refused(sharing(R"({"resources": []})")));
  EXPECT_EQ(accepted(sharing(R"({"resources": [{"name": "a", "replicas": 2}]})")).sharing.resources.size(), 1u);
  const auto two =
      accepted(sharing(R"({"resources": [{"name": "a1", "replicas": 2}, {"name": "a2", "replicas": 2}]})"));
  ASSERT_EQ(two.sharing.resources.size(), 2u);
  EXPECT_EQ(two.sharing.resources[1].name, "nvidia.com/a2");
  EXPECT_TRUE(refused(sharing(R"({"resources": [{"name": "$a$", "replicas": 2}]})")));
}

// Patterns: 18 of NVIDIA's rows test which names a pattern matches. Its programs clear the lists that hold patterns, so
// a file cannot set one; here they are read and reported as without effect.
TEST(Replayed, PatternsHaveNoEffect) {
  for (const char* pattern :
       {"1g.12gb", "1g.12gb-me", "1g.12gb+me.all", "*", "1g.*", "1g.12gb+gfx", "2g.24gb+gfx", "2g.24gb", "*gb"}) {
    const Parsed parsed = parse(std::string("resources: {mig: [{pattern: \"") + pattern + "\", name: mig-some}]}", "c");
    EXPECT_EQ(parsed.config, Config{}) << pattern;
    ASSERT_EQ(parsed.problems.size(), 1u) << pattern;
    EXPECT_THAT(to_string(parsed.problems[0]), HasSubstr("warning: resources.mig: has no effect")) << pattern;
  }
}

}  // namespace replayed_test
}  // namespace tranche::config
