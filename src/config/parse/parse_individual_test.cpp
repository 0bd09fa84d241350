// A fork's `individualGPU`, converted to entries of this format.
#include <gmock/gmock.h>

#include "config/parse/parse_fixture.h"
#include "config/resolve.h"

namespace tranche::config {
namespace parse_individual_test {

using namespace fixture;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<SharedResource> entries(const std::string& text) {
  return accepted(text).sharing.resources;
}
std::string individual(const std::string& gpus, const std::string& mps = "") {
  return "sharing: {mps: {" + mps + "}}\nindividualGPU: {enabled: true, namePattern: gpu%d, gpuConfigs: [" + gpus +
         "]}";
}
std::vector<DeviceRef> refs(const SharedResource& entry) {
  const auto* list = std::get_if<std::vector<DeviceRef>>(&entry.devices);
  return list != nullptr ? *list : std::vector<DeviceRef>{};
}

// Promise: config: A fork's configuration for individual GPUs gives the same entries.
TEST(IndividualGpuConfig, GivesEachGpuAnEntryInOnePool) {
  const std::string text = individual(
      "{index: 0, name: gpu0, mps: {enabled: true, replicas: 20}}, {index: 1, mps: {enabled: true, replicas: 10}}");
  EXPECT_THAT(said(text), IsEmpty());
  const auto found = entries(text);
  ASSERT_EQ(found.size(), 2u);
  for (const auto& entry : found) {
    EXPECT_EQ(entry.name, "nvidia.com/gpu");
    EXPECT_EQ(entry.names, "nvidia.com/gpu%d") << "a name that is what the pattern gives is no name of its own";
    EXPECT_EQ(entry.split, SplitPolicy::kSpan);
  }
  EXPECT_THAT(refs(found[0]), ElementsAre(DeviceRef{"0"}));
  EXPECT_EQ(found[0].replicas, 20u);
  EXPECT_THAT(refs(found[1]), ElementsAre(DeviceRef{"1"}));
  EXPECT_TRUE(parse(text, "c").config.sharing.per_device);
}

// Promise: config: A GPU named by its UUID only is that GPU.
TEST(IndividualGpuConfig, AGpuNamedByItsUuidOnlyIsThatGpuAndNotIndexZero) {
  const std::string uuid = "GPU-3f2a1b4c-1111-2222-3333-444444444444";
  const auto found = entries(individual("{uuid: " + uuid + ", mps: {enabled: true, replicas: 4}}"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(refs(found[0]), ElementsAre(DeviceRef{uuid}));
}

TEST(IndividualGpuConfig, WithoutGpusItNamesTheEntriesOfTheSection) {
  const std::string text =
      "sharing: {mps: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 20}]}}\n"
      "individualGPU: {enabled: true}";
  EXPECT_THAT(said(text), IsEmpty());
  const auto found = entries(text);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].names, "nvidia.com/gpu%d");
  EXPECT_FALSE(found[0].rename);
}

TEST(IndividualGpuConfig, AContainerMayAskSeveralSlotsWhateverTheSwitchSays) {
  const std::string text =
      individual("{index: 0, mps: {enabled: true, replicas: 20}}", "failRequestsGreaterThanOne: true");
  EXPECT_FALSE(parse(text, "c").config.sharing.fail_requests_greater_than_one);
  EXPECT_THAT(said(text), ElementsAre(HasSubstr("has no effect beside individualGPU")));
}

TEST(IndividualGpuConfig, WhatHasNoEffectIsSaidAndRefusedWhenStrict) {
  const std::string text =
      individual("{index: 0, mps: {enabled: true, activeThreadPercentage: 30, pinnedMemoryLimit: 2000}}");
  EXPECT_THAT(said(text), ElementsAre(HasSubstr("warning: individualGPU.gpuConfigs[0].mps.activeThreadPercentage")));
  EXPECT_THAT(said(text, UnknownKeys::kRefused), ElementsAre(HasSubstr("error: individualGPU")));
  EXPECT_EQ(entries(text)[0].memory, (MemoryPolicy{MemoryPolicy::Kind::kSize, 100, mib(2000)}));
  EXPECT_THAT(said("individualGPU: {enabled: true}"), ElementsAre(HasSubstr("has no effect without sharing.mps")));
  EXPECT_THAT(said("flags: {namedResources: true}"), ElementsAre(HasSubstr("write names: gpu-%d")));
}

TEST(IndividualGpuConfig, IsTheSameAsJson) {
  const auto found = entries(
      R"({"sharing": {"mps": {}}, "individualGPU": {"enabled": true, "gpuConfigs": [{"index": 3, "mps": {"enabled": true, "replicas": 4}}]}})");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(refs(found[0]), ElementsAre(DeviceRef{"3"}));
}

TEST(IndividualGpuConfig, RefusesWhatNamesNoGpu) {
  EXPECT_THAT(said(individual("{mps: {enabled: true}}")), Contains(HasSubstr("names no GPU")));
  EXPECT_THAT(said(individual("{index: -1, mps: {enabled: true}}")), Contains(HasSubstr("must name a GPU")));
  EXPECT_THAT(said(individual("{index: 0, mps: {enabled: true, replicas: 0}}")),
              ElementsAre(HasSubstr("must be from 1 to 65535")));
  EXPECT_THAT(said(individual("{index: 0}")), Contains(HasSubstr("is not shared by MPS")));
}

TEST(IndividualGpuConfig, IsWrittenInOurOwnWordsAndReadBack) {
  auto first = parse(individual("{index: 0, mps: {enabled: true, replicas: 20}}, {index: 1, name: big, mps: {enabled: "
                                "true, replicas: 2, enableMemoryLimit: false}}"),
                     "c")
                   .config;
  auto again = parse(render_line(first), "again").config;
  for (auto* config : {&first, &again})
    for (auto& entry : config->sharing.resources) entry.place = {};
  EXPECT_EQ(again, first) << render_line(first);
}

}  // namespace parse_individual_test
}  // namespace tranche::config
