// The keys of share sizes, extensions below sharing.mps and in its entries.
#include <gmock/gmock.h>

#include "config/parse/parse_fixture.h"
#include "config/resolve.h"

namespace tranche::config {
namespace parse_shares_test {

using namespace fixture;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Config read(const std::string& text) {
  const Parsed parsed = parse(text, "c");
  for (const auto& problem : parsed.problems) ADD_FAILURE() << to_string(problem);
  Config again = parse(render_line(parsed.config), "again").config;
  Config first = parsed.config;
  for (auto* config : {&again, &first})
    for (auto& entry : config->sharing.resources) entry.place = {};
  EXPECT_EQ(again, first) << render_line(parsed.config);
  return parsed.config;
}
std::string mps(const std::string& section, const std::string& entry = "replicas: 20") {
  return "sharing: {mps: {" + section + (section.empty() ? "" : ", ") + "resources: [{name: gpu, " + entry + "}]}}";
}
SharedResource entry_of(const std::string& text) {
  const Config config = read(text);
  return config.sharing.resources.empty() ? SharedResource{} : config.sharing.resources.front();
}

TEST(SharesConfig, ThreadsAreEqualUnlessTheSectionOrTheEntrySaysOtherwise) {
  using Kind = ThreadsPolicy::Kind;
  EXPECT_EQ(entry_of(mps("")).threads, ThreadsPolicy{});
  EXPECT_EQ(entry_of(mps("threads: open")).threads.kind, Kind::kOpen);
  EXPECT_EQ(entry_of(mps("threads: open", "replicas: 20, threads: equal")).threads, ThreadsPolicy{});
  EXPECT_EQ(entry_of(mps("threads: tenant")).threads.kind, Kind::kTenant);
  const auto doubled = entry_of(mps("threads: {factor: 2}")).threads;
  EXPECT_EQ(doubled, (ThreadsPolicy{Kind::kFactor, 200, 0}));
  EXPECT_EQ(entry_of(mps("", "replicas: 4, threads: {sms: 16}")).threads, (ThreadsPolicy{Kind::kSms, 100, 16}));
}

TEST(SharesConfig, MemoryIsAWordAFactorOrASize) {
  using Kind = MemoryPolicy::Kind;
  EXPECT_EQ(entry_of(mps("")).memory, MemoryPolicy{});
  EXPECT_EQ(entry_of(mps("memory: open")).memory.kind, Kind::kOpen);
  EXPECT_EQ(entry_of(mps("memory: {factor: 1.5}")).memory, (MemoryPolicy{Kind::kFactor, 150, {}}));
  EXPECT_EQ(entry_of(mps("memory: open", "replicas: 4, memory: 4Gi")).memory, (MemoryPolicy{Kind::kSize, 100, gib(4)}));
  EXPECT_EQ(entry_of(mps("", "replicas: 4, memoryGB: 10")).memory, (MemoryPolicy{Kind::kSize, 100, gib(10)}));
}

TEST(SharesConfig, TheReserveIsNothingWhatWasMeasuredOrASize) {
  EXPECT_EQ(read(mps("")).sharing.reserve, Reserve{});
  EXPECT_EQ(read(mps("reserve: none")).sharing.reserve, Reserve{});
  EXPECT_EQ(read(mps("reserve: auto")).sharing.reserve.kind, Reserve::Kind::kAuto);
  EXPECT_EQ(read(mps("reserve: 600Mi")).sharing.reserve, (Reserve{Reserve::Kind::kSize, mib(600)}));
}

TEST(SharesConfig, ASplitIsRejectedUnlessSpanIsSaidOrEachGpuHasAName) {
  EXPECT_EQ(entry_of(mps("")).split, SplitPolicy::kReject);
  EXPECT_EQ(entry_of(mps("split: span")).split, SplitPolicy::kSpan);
  EXPECT_EQ(entry_of(mps("", "replicas: 2, split: span")).split, SplitPolicy::kSpan);
  EXPECT_EQ(entry_of(mps("", "replicas: 2, names: gpu%d")).split, SplitPolicy::kSpan);
  EXPECT_EQ(entry_of(mps("", "replicas: 2, names: gpu-%ggb")).split, SplitPolicy::kReject);
  EXPECT_EQ(entry_of(mps("", "replicas: 2, names: gpu%d, split: reject")).split, SplitPolicy::kReject);
  EXPECT_EQ(entry_of(mps("split: reject", "replicas: 2, names: gpu%d")).split, SplitPolicy::kReject);
}

TEST(SharesConfig, SlotsAreCountedOrMeasured) {
  EXPECT_EQ(entry_of(mps("", "replicas: 1")).replicas, 1u) << "MPS without throttling";
  EXPECT_EQ(entry_of(mps("failRequestsGreaterThanOne: false", "replicas: 1000")).replicas, 1000u);
  const auto measured = entry_of(mps("", "slotMemory: 4Gi"));
  EXPECT_EQ(measured.replicas, 0u);
  EXPECT_EQ(measured.slot_memory, gib(4));
  EXPECT_THAT(said(mps("", "slotMemory: 20GB")), ElementsAre(HasSubstr("GB is not a unit here; write 20G or 20Gi")));
  EXPECT_THAT(said(mps("", "slotMemory: 1.5 gib")), ElementsAre(HasSubstr("gib is not a unit here; write 1.5Gi")));
  EXPECT_THAT(said(mps("", "slotMemory: 20KB")), ElementsAre(HasSubstr("must be a size with a unit")));
}

TEST(SharesConfig, NamesHaveASignOfWhatDistinguishesThem) {
  EXPECT_EQ(entry_of(mps("", "replicas: 2, names: gpu%d")).names, "nvidia.com/gpu%d");
  EXPECT_FALSE(entry_of(mps("renameByDefault: true", "replicas: 2, names: gpu%d")).rename);
  for (const char* bad : {"gpu", "GPU%d", "gpu%x", "gpu%", "gpu%d-", "amd.com/gpu%d"})
    EXPECT_THAT(said(mps("", "replicas: 2, names: " + std::string(bad))),
                ElementsAre(HasSubstr("error: sharing.mps.resources[0].names")))
        << bad;
}

TEST(SharesConfig, WhatIsNoPolicyIsNamedWithPlaceAndRemedy) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"threads: {factor: two}", "must be a number from 0.01 to 100"},
      {"threads: {sms: 0}", "must be from 1 to 1024, but is 0"},
      {"threads: {sms: 1025}", "must be from 1 to 1024"},
      {"memory: [4Gi]", "but is a list"},
      {"memory: {factor: 1.234}", "at most two places"},
      {"reserve: 5", "must be none, auto or a size with a unit"},
      {"reserve: {}", "must be none, auto or a size with a unit"},
      {"split: both", "must be reject or span, but is \"both\""}};
  for (const auto& [text, what] : rows) {
    EXPECT_THAT(said(mps(text)), ElementsAre(HasSubstr(what))) << text;
    if (text.starts_with("reserve")) continue;
    EXPECT_THAT(said(mps("", "replicas: 2, " + text)), ElementsAre(HasSubstr(what))) << text;
  }
}

TEST(SharesConfig, TimeSlicingHasNoneOfThem) {
  for (const char* key : {"threads: open", "memory: open", "split: span", "names: gpu%d", "slotMemory: 4Gi"})
    EXPECT_THAT(said("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, " + std::string(key) + "}]}}"),
                Contains(HasSubstr("not a known key")))
        << key;
}

TEST(SharesConfig, PerDeviceMakesDevicesAndRenameCount) {
  const std::string uuid = "GPU-3f2a1b4c-1111-2222-3333-444444444444";
  const Config config =
      read("sharing: {perDevice: true, mps: {resources: [{name: gpu, replicas: 2, devices: [0, \"0:1\", " + uuid +
           "], rename: half}, {name: gpu, replicas: 4, devices: 2}]}}");
  EXPECT_TRUE(config.sharing.per_device);
  ASSERT_EQ(config.sharing.resources.size(), 2u);
  const auto& [first, second] = std::pair(config.sharing.resources[0], config.sharing.resources[1]);
  EXPECT_EQ(std::get<std::vector<DeviceRef>>(first.devices), (std::vector<DeviceRef>{{"0"}, {"0:1"}, {uuid}}));
  EXPECT_EQ(first.rename, "nvidia.com/half");
  EXPECT_EQ(std::get<DeviceCount>(second.devices).count, 2u);
  EXPECT_FALSE(second.rename);
}

TEST(SharesConfig, PerDevicePutsBothSectionsInForce) {
  const Config config = read(
      "sharing: {perDevice: true, timeSlicing: {failRequestsGreaterThanOne: true, renameByDefault: true, resources: "
      "[{name: gpu, replicas: 3, devices: [1]}]}, mps: {resources: [{name: gpu, replicas: 2, devices: [0]}]}}");
  ASSERT_EQ(config.sharing.resources.size(), 2u);
  EXPECT_EQ(config.sharing.strategy, SharingStrategy::kMps);
  EXPECT_EQ(config.sharing.resources[0].strategy, SharingStrategy::kMps);
  EXPECT_EQ(config.sharing.resources[1].strategy, SharingStrategy::kTimeSlicing);
  EXPECT_EQ(config.sharing.resources[1].rename, "nvidia.com/gpu.shared");
  EXPECT_TRUE(one_slot_per_request(config, config.sharing.resources[0]));
  EXPECT_TRUE(one_slot_per_request(config, config.sharing.resources[1]));
}

TEST(SharesConfig, OneEntryOnlyCanHaveAllThatIsLeft) {
  EXPECT_THAT(said("sharing:\n  perDevice: true\n  mps: {resources: [{name: gpu, replicas: 2}]}\n"
                   "  timeSlicing:\n    resources:\n    - {name: gpu, replicas: 4}\n"),
              ElementsAre(HasSubstr("shares all devices of nvidia.com/gpu, as the entry in line 3 does")));
}

TEST(SharesConfig, OneEntryOnlyCanHaveAListedDevice) {
  const std::string two =
      "sharing:\n  perDevice: true\n  mps: {resources: [{name: gpu, replicas: 2, devices: [0, 1]}]}\n"
      "  timeSlicing:\n    resources:\n";
  EXPECT_THAT(said(two + "    - {name: gpu, replicas: 4, devices: [2, 1, 0]}\n"),
              ElementsAre(HasSubstr("c:6:7: error: sharing: has device 1, as the entry in line 3 does")));
  EXPECT_THAT(said(two + "    - {name: gpu, replicas: 4, devices: [2, 2]}\n"), IsEmpty());
}

TEST(SharesConfig, AForksSwitchForMemoryMeansOpen) {
  const Parsed off = parse(mps("enableMemoryLimit: false"), "c");
  EXPECT_EQ(off.config.sharing.memory.kind, MemoryPolicy::Kind::kOpen);
  EXPECT_FALSE(has_error(off.problems));
  EXPECT_THAT(said(mps("enableMemoryLimit: false")), ElementsAre(HasSubstr("warning: sharing.mps.enableMemoryLimit")));
  EXPECT_THAT(said(mps("enableMemoryLimit: true")), IsEmpty());
  EXPECT_EQ(entry_of(mps("enableMemoryLimit: true")).memory, MemoryPolicy{});
}

}  // namespace parse_shares_test
}  // namespace tranche::config
