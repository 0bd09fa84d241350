#include <gmock/gmock.h>

#include "config/parse/parse.h"
#include "config/render.h"

namespace tranche::config {
namespace parse_dra_test {

using ::testing::HasSubstr;

TEST(DraConfig, OffersNothingUnlessToldTo) {
  const Config config = parse("version: v1\n", "c").config;
  EXPECT_EQ(config.dra.devices, DraDevices::kNone);
  EXPECT_EQ(config.dra.driver_name, "gpu.tranche.io");
}

TEST(DraConfig, TakesDevicesAndTheDriversName) {
  const Parsed parsed = parse("dra: {devices: all, driverName: gpu.nvidia.com, split: span}", "c");
  EXPECT_TRUE(parsed.problems.empty());
  EXPECT_EQ(parsed.config.dra, (Dra{DraDevices::kAll, "gpu.nvidia.com", SplitPolicy::kSpan}));
  EXPECT_EQ(parse(render_json(parsed.config), "again").config, parsed.config);
}

TEST(DraConfig, RefusesWhatCannotNameADriver) {
  for (const char* bad : {"Gpu.tranche.io", "gpu..io", "-gpu", "gpu_1", "\"\"", "[gpu]", "true",
                          "a123456789012345678901234567890123456789012345678901234567890123"}) {
    const auto problems = parse("dra:\n  driverName: " + std::string(bad), "c").problems;
    ASSERT_EQ(problems.size(), 1u) << bad;
    EXPECT_THAT(to_string(problems[0]), HasSubstr("c:2:15: error: dra.driverName: ")) << bad;
  }
}

TEST(DraConfig, RefusesOtherWordsAndKeys) {
  EXPECT_THAT(to_string(parse("dra: {devices: al}", "c").problems.at(0)),
              HasSubstr("dra.devices: must be none or all, but is \"al\""));
  EXPECT_TRUE(has_error(parse("dra: all", "c").problems));
  EXPECT_FALSE(parse("dra: {device: all}", "c").problems.empty());
}

}  // namespace parse_dra_test
}  // namespace tranche::config
