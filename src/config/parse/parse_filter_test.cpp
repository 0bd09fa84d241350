#include <gmock/gmock.h>

#include "config/parse/parse.h"
#include "config/resolve.h"

namespace tranche::config {
namespace parse_filter_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kUuid = "GPU-3f2a1b4c-1111-2222-3333-444444444444";

TEST(DeviceFilterConfig, TakesUuidsAddressesIndicesAndModels) {
  const Parsed parsed =
      parse("devices: {include: [" + kUuid + ", \"0000:3b:00.0\", 2, \"NVIDIA H200*\"], exclude: [\"0\"]}", "c");
  EXPECT_TRUE(parsed.problems.empty());
  EXPECT_THAT(parsed.config.devices.include,
              ElementsAre(DeviceRef{kUuid}, DeviceRef{"0000:3b:00.0"}, DeviceRef{"2"}, DeviceRef{"NVIDIA H200*"}));
  EXPECT_THAT(parsed.config.devices.exclude, ElementsAre(DeviceRef{"0"}));
  EXPECT_EQ(parse(render_line(parsed.config), "again").config, parsed.config);
}

TEST(DeviceFilterConfig, RefusesWhatCannotNameAGpu) {
  for (const char* bad : {"-1", "1.5", "true", "\"\"", "[0]", "GPU-123", "\"0:1\"", "\"00:1g.0\"",
                          "MIG-3f2a1b4c-1111-2222-3333-444444444444"}) {
    const auto problems = parse("devices:\n  exclude: [" + std::string(bad) + "]", "c").problems;
    ASSERT_EQ(problems.size(), 1u) << bad;
    EXPECT_THAT(to_string(problems[0]), HasSubstr("c:2:13: error: devices.exclude[0]: must name GPUs, but is")) << bad;
  }
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "0, ";
  EXPECT_FALSE(has_error(parse("devices: {include: [" + many + "]}", "c").problems));
  const auto more = parse("devices: {include: [" + many + "0]}", "c").problems;
  ASSERT_EQ(more.size(), 1u);
  EXPECT_THAT(to_string(more[0]), HasSubstr("devices.include: has more than 1,000 GPUs"));
  EXPECT_TRUE(has_error(parse("devices: [0]", "c").problems));
  EXPECT_TRUE(has_error(parse("devices: {include: 0}", "c").problems));
}

}  // namespace parse_filter_test
}  // namespace tranche::config
