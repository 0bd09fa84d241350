#include <gmock/gmock.h>

#include "config/parse/parse.h"
#include "config/resolve.h"

namespace tranche::config {
namespace parse_dra_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DraConfig, OffersNothingUnlessConfigured) {
  const Config config = parse("version: v1\n", "c").config;
  EXPECT_EQ(config.dra.devices, DraDevices::kNone);
  EXPECT_EQ(config.dra.driver_name, "gpu.tranche.io");
}

TEST(DraConfig, TakesDevicesAndTheDriversName) {
  const Parsed parsed = parse("dra: {devices: all, driverName: gpu.nvidia.com, split: span}", "c");
  EXPECT_TRUE(parsed.problems.empty());
  EXPECT_EQ(parsed.config.dra, (Dra{DraDevices::kAll, {}, "gpu.nvidia.com", SplitPolicy::kSpan}));
  EXPECT_EQ(parse(render_line(parsed.config), "again").config, parsed.config);
}

// Promise: config: Partitions on demand are off unless the configuration has them.
TEST(DraConfig, HasPartitionsOnDemandOnlyWhenAsked) {
  EXPECT_EQ(parse("version: v1\n", "c").config.dra.partitions, DraPartitions::kStatic);
  const Parsed parsed = parse("dra: {devices: all, partitions: onDemand}", "c");
  EXPECT_TRUE(parsed.problems.empty());
  EXPECT_EQ(parsed.config.dra.partitions, DraPartitions::kOnDemand);
  EXPECT_EQ(parse(render_line(parsed.config), "again").config, parsed.config);
  EXPECT_THAT(to_string(parse("dra: {partitions: dynamic}", "c").problems.at(0)),
              HasSubstr("dra.partitions: must be static or onDemand, but is \"dynamic\""));
}

TEST(DraConfig, RefusesWhatCannotNameADriver) {
  for (const char* bad : {"Gpu.tranche.io", "gpu..io", "-gpu", "gpu_1", "\"\"", "[gpu]", "true",
                          "a123456789012345678901234567890123456789012345678901234567890123"}) {
    const auto problems = parse("dra:\n  driverName: " + std::string(bad), "c").problems;
    ASSERT_EQ(problems.size(), 1u) << bad;
    EXPECT_THAT(to_string(problems[0]), HasSubstr("c:2:15: error: dra.driverName: ")) << bad;
  }
}

// Promise: config: The GPUs of claims can be a list, and the device plugin has the others.
TEST(DraConfig, TakesAListOfGpus) {
  const Parsed parsed = parse("dra: {devices: [0, \"NVIDIA H200*\", \"0000:3b:00.0\"]}", "c");
  EXPECT_TRUE(parsed.problems.empty());
  EXPECT_EQ(parsed.config.dra.devices, DraDevices::kListed);
  EXPECT_THAT(parsed.config.dra.listed,
              ElementsAre(DeviceRef{"0"}, DeviceRef{"NVIDIA H200*"}, DeviceRef{"0000:3b:00.0"}));
  EXPECT_EQ(parse(render_line(parsed.config), "again").config, parsed.config);
  EXPECT_THAT(to_string(parse("dra: {devices: []}", "c").problems.at(0)),
              HasSubstr("dra.devices: is an empty list; write the GPUs of claims, such as [0, 1], or the word none"));
  EXPECT_THAT(to_string(parse("dra: {devices: [\"0:1\"]}", "c").problems.at(0)),
              HasSubstr("dra.devices[0]: must name GPUs, but is"));
}

TEST(DraConfig, RefusesOtherWordsAndKeys) {
  EXPECT_THAT(to_string(parse("dra: {devices: al}", "c").problems.at(0)),
              HasSubstr("dra.devices: must be none or all, but is \"al\""));
  EXPECT_TRUE(has_error(parse("dra: all", "c").problems));
  EXPECT_FALSE(parse("dra: {device: all}", "c").problems.empty());
}

}  // namespace parse_dra_test
}  // namespace tranche::config
