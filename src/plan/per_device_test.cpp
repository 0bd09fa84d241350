// Entries that divide the devices of a node among them (sharing.perDevice), name patterns, units, pools of several
// GPUs: from a configuration file to the plan.
#include <gmock/gmock.h>

#include <algorithm>

#include "config/parse/parse.h"
#include "make.h"
#include "plan/make_plan_fixture.h"
#include "plan/plan_steps.h"

namespace tranche::plan {
namespace per_device_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using make::uuid;

gpu::Inventory gpus(std::uint32_t count, const char* model = "NVIDIA H200", std::uint64_t memory = 143771) {
  return make::gpus(count, {model, mib(memory)});
}

config::Config config_of(const std::string& text) {
  const auto parsed = config::parse(text, "c.yaml");
  for (const auto& problem : parsed.problems) EXPECT_EQ(problem.severity, Severity::kWarning) << to_string(problem);
  return parsed.config;
}
Plan plan_of(const std::string& text, const gpu::Inventory& inventory) {
  return fixture::plan_of(config_of(text), inventory);
}
std::vector<std::string> problems_of(const std::string& text, const gpu::Inventory& inventory) {
  return fixture::problems_of(config_of(text), inventory);
}

std::string mps(const std::string& entries, const std::string& section = "") {
  return "sharing:\n  mps:\n    failRequestsGreaterThanOne: false\n" +
         (section.empty() ? "" : "    " + section + "\n") + "    resources:\n" + entries;
}
std::string each(const std::string& entries) {
  return "sharing:\n  perDevice: true\n  mps:\n    failRequestsGreaterThanOne: false\n    resources:\n" + entries;
}

// "nvidia.com/gpu0: 0x20" for each device, with its slots; without slots if it is undivided.
std::vector<std::string> described(const Plan& plan) {
  std::vector<std::string> out;
  for (const auto& resource : plan.resources) {
    std::string text = resource.name + ":";
    for (const auto& device : resource.devices)
      text += " " + device.index + (device.replicated ? "x" + std::to_string(device.slots) : "");
    out.push_back(text);
  }
  return out;
}

TEST(PerDevice, ListsComeFirstThenCountsThenTheRest) {
  const Plan plan = plan_of(each("    - {name: gpu, replicas: 2, rename: rest}\n"
                                 "    - {name: gpu, replicas: 3, devices: 2, rename: two}\n"
                                 "    - {name: gpu, replicas: 4, devices: [0, " +
                                 uuid(3) + "], rename: listed}\n"),
                            gpus(6));
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu:", "nvidia.com/listed: 0x4 3x4", "nvidia.com/rest: 4x2 5x2",
                                           "nvidia.com/two: 1x3 2x3"));
}

TEST(PerDevice, WhatNoEntryTakesIsAdvertisedWhole) {
  const Plan plan = plan_of(each("    - {name: gpu, replicas: 4, devices: [1], rename: gpu.part}\n"), gpus(3));
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu: 0 2", "nvidia.com/gpu.part: 1x4"));
  EXPECT_EQ(plan.resources[0].devices[0].pool, "");
  EXPECT_THAT(plan.pools, SizeIs(1));
}

TEST(PerDevice, ExclusiveTimeSlicedMpsAndMigStandSideBySide) {
  auto inventory = gpus(4);
  for (int i = 0; i < 2; ++i) make::add_mig(inventory.gpus[3], "3g.71gb", 3);
  const std::string text =
      "flags: {migStrategy: mixed}\nsharing:\n  perDevice: true\n"
      "  mps: {resources: [{name: gpu, replicas: 10, devices: [0], rename: gpu.mps}]}\n"
      "  timeSlicing: {resources: [{name: gpu, replicas: 3, devices: [1], rename: gpu.slow}, {name: mig-3g.71gb, "
      "replicas: 2, devices: [\"3:1\"], rename: mig.slow}]}\n";
  const Plan plan = plan_of(text, inventory);
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu: 2", "nvidia.com/gpu.mps: 0x10", "nvidia.com/gpu.slow: 1x3",
                                           "nvidia.com/mig-3g.71gb: 3:0", "nvidia.com/mig.slow: 3:1x2"));
  EXPECT_EQ(find_resource(plan, "nvidia.com/gpu.mps")->sharing, config::SharingStrategy::kMps);
  EXPECT_TRUE(find_resource(plan, "nvidia.com/gpu.mps")->one_slot_per_request);
  EXPECT_EQ(find_resource(plan, "nvidia.com/gpu.slow")->sharing, config::SharingStrategy::kTimeSlicing);
  EXPECT_FALSE(find_resource(plan, "nvidia.com/gpu.slow")->one_slot_per_request);
  ASSERT_THAT(plan.pools, SizeIs(1));
  EXPECT_THAT(plan.pools[0].devices, ElementsAre(uuid(0)));
}

// Promise: plan/shares: One GPU in two entries is a problem with both lines.
TEST(PerDevice, TheSameGpuInTwoEntriesIsAProblemWithBothLines) {
  EXPECT_THAT(problems_of(each("    - {name: gpu, replicas: 4, devices: [0, 1], rename: a}\n"
                               "    - {name: gpu, replicas: 2, devices: [" +
                               uuid(1) + "], rename: b}\n"),
                          gpus(2)),
              ElementsAre(HasSubstr("c.yaml:7:7: error: sharing.mps.resources[1].devices: has GPU 1 (" + uuid(1) +
                                    "), which the entry in line 6 has as well")));
  std::string many = "0";
  for (int i = 0; i < 200; ++i) many += ", 0";
  EXPECT_THAT(problems_of(each("    - {name: gpu, replicas: 4, devices: [" + uuid(0) +
                               "], rename: a}\n"
                               "    - {name: gpu, replicas: 2, devices: [" +
                               many + "], rename: b}\n"),
                          gpus(2))
                  .back(),
              HasSubstr("… and at least 1 more problems"))
      << "the others are not counted";
}

TEST(PerDevice, NamesThatCollideAreAProblem) {
  EXPECT_THAT(problems_of(each("    - {name: gpu, replicas: 4, devices: [0]}\n"), gpus(2)),
              ElementsAre(HasSubstr("sharing.mps.resources[0].rename: shared and whole devices would both be named "
                                    "nvidia.com/gpu")));
  EXPECT_THAT(problems_of(each("    - {name: gpu, replicas: 4, devices: [0], rename: x}\n"
                               "    - {name: gpu, replicas: 2, devices: [1], rename: x}\n"),
                          gpus(2)),
              ElementsAre(HasSubstr("c.yaml:7:7: error: sharing.mps.resources[1].rename: gives nvidia.com/x, as the "
                                    "entry in line 6 does")));
}

TEST(PerDevice, AnEntryThatMatchesNothingIsAProblemAndOneForAnotherNodeANote) {
  EXPECT_THAT(problems_of(each("    - {name: gpu, replicas: 4, devices: [7], rename: x}\n"), gpus(2)),
              ElementsAre(HasSubstr("names no nvidia.com/gpu of this node, which has 0, 1")));
  // A GPU that is missing after a reboot does not cost the others their slots.
  const Plan without = plan_of(each("    - {name: gpu, replicas: 4, devices: [0, 9], rename: x}\n"), gpus(2));
  EXPECT_THAT(described(without), Contains(HasSubstr("0x4")));
  EXPECT_THAT(
      without.notes,
      Contains(HasSubstr("warning: sharing.mps.resources[0].devices: has 9, which is not a nvidia.com/gpu of this "
                         "node; it has 0, 1")));
  EXPECT_EQ(without.warnings.size(), 1u) << "tranche plan --strict refuses it";
  EXPECT_THAT(problems_of(each("    - {name: gpu, replicas: 4, devices: [0, 1], rename: x}\n"
                               "    - {name: gpu, replicas: 4, devices: 2, rename: other}\n"),
                          gpus(2)),
              ElementsAre(HasSubstr("is 2, but other entries have all 2 nvidia.com/gpu of this node")));
  const Plan plan = plan_of(each("    - {name: gpu, replicas: 4, devices: [" + uuid(9) + "], rename: x}\n"), gpus(2));
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu: 0 1"));
  EXPECT_THAT(plan.notes, Contains(HasSubstr("c.yaml:6:7: devices has " + uuid(9))));
}

TEST(PerDevice, ACountOfMoreThanIsLeftIsANoteAndOneThatIsMetIsNone) {
  const auto left = [](const std::string& devices) {
    const Plan plan = plan_of(each("    - {name: gpu, replicas: 4, devices: [0], rename: x}\n"
                                   "    - {name: gpu, replicas: 4, devices: " +
                                   devices + ", rename: rest}\n"),
                              gpus(3));
    return std::ranges::count_if(plan.notes,
                                 [](const std::string& note) { return note.find("left for") != std::string::npos; });
  };
  EXPECT_EQ(left("2"), 0);
  EXPECT_EQ(left("3"), 1);
  EXPECT_EQ(left("all"), 0);
}

TEST(PerDevice, WithoutTheKeyEveryDeviceIsSharedAsToday) {
  const auto parsed = config::parse(mps("    - {name: gpu, replicas: 4, devices: [0], rename: x}\n"), "c");
  EXPECT_THAT(parsed.problems, SizeIs(2)) << "devices and rename are set aside";
  const auto plan = make_plan(parsed.config, gpus(2));
  ASSERT_TRUE(plan);
  EXPECT_THAT(described(*plan), ElementsAre("nvidia.com/gpu: 0x4 1x4"));
}

// Promise: plan/shares: Each GPU by index is a resource and all are one pool.
TEST(Individual, EachGpuIsAResourceAndAllAreOnePool) {
  const Plan plan = plan_of(mps("    - {name: gpu, replicas: 20, names: gpu%d}\n"), gpus(12));
  EXPECT_THAT(plan.resources, SizeIs(13));
  const auto* ten = find_resource(plan, "nvidia.com/gpu10");
  ASSERT_NE(ten, nullptr);
  ASSERT_THAT(ten->devices, SizeIs(1));
  EXPECT_EQ(ten->devices[0].uuid, uuid(10));
  EXPECT_EQ(ten->split, config::SplitPolicy::kSpan);
  EXPECT_THAT(find_resource(plan, "nvidia.com/gpu")->devices, IsEmpty()) << "0 under the undivided name";
  ASSERT_THAT(plan.pools, SizeIs(1));
  const PlannedPool& pool = plan.pools[0];
  EXPECT_TRUE(pool.id.starts_with("set-")) << pool.id;
  EXPECT_EQ(pool.id.size(), 12u);
  ASSERT_THAT(pool.devices, SizeIs(12));
  for (std::uint32_t i = 0; i < 12; ++i) EXPECT_EQ(pool.devices[i], uuid(i)) << "10 comes after 9, not after 1";
  ASSERT_THAT(pool.limits, SizeIs(12));
  EXPECT_EQ(pool.limits[3].uuid, uuid(3));
  EXPECT_EQ(pool.limits[3].client.memory, mib(143771)) << "a container may hold all slots of a GPU";
  EXPECT_EQ(pool.max_clients, 48u);
}

TEST(Individual, AnIndexIsNoPartOfAModelsName) {
  const Plan plan = plan_of(mps("    - {name: gpu, replicas: 4, names: gpu-%d}\n"), gpus(8, "NVIDIA A100-SXM4-40GB"));
  for (std::uint32_t i = 0; i < 8; ++i) {
    const auto* resource = find_resource(plan, "nvidia.com/gpu-" + std::to_string(i));
    ASSERT_NE(resource, nullptr);
    ASSERT_THAT(resource->devices, SizeIs(1)) << i;
    EXPECT_EQ(resource->devices[0].uuid, uuid(i));
  }
}

TEST(Individual, WithSplitRejectEachGpuIsAPoolOfItsOwn) {
  const Plan plan = plan_of(mps("    - {name: gpu, replicas: 20, names: gpu%d, split: reject}\n"), gpus(2));
  EXPECT_THAT(plan.pools, SizeIs(2));
  for (const auto& pool : plan.pools) EXPECT_TRUE(pool.id.starts_with("gpu-"));
}

// Promise: config: A fork's configuration for individual GPUs gives the same entries.
TEST(Individual, AForksConfigurationGivesTheSame) {
  const Plan plan = plan_of(
      "sharing: {mps: {renameByDefault: true}}\n"
      "individualGPU:\n  enabled: true\n  gpuConfigs:\n"
      "  - {index: 0, name: gpu0, mps: {enabled: true, replicas: 20}}\n"
      "  - {uuid: " +
          uuid(1) + ", mps: {enabled: true, replicas: 10}}\n",
      gpus(3));
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu: 2", "nvidia.com/gpu0: 0x20", "nvidia.com/gpu1: 1x10"));
  ASSERT_THAT(plan.pools, SizeIs(1));
  EXPECT_THAT(plan.pools[0].devices, ElementsAre(uuid(0), uuid(1)));
}

TEST(Names, SizesAndModelsMakeResourcesOfUnlikeGpus) {
  auto inventory = gpus(2);
  inventory.gpus[1].name = "NVIDIA L4";
  inventory.gpus[1].memory = mib(23034);
  EXPECT_THAT(described(plan_of(mps("    - {name: gpu, replicas: 10, names: gpu-%ggb}\n"), inventory)),
              ElementsAre("nvidia.com/gpu:", "nvidia.com/gpu-14gb: 0x10", "nvidia.com/gpu-2gb: 1x10"));
  EXPECT_THAT(described(plan_of(mps("    - {name: gpu, slotMemory: 10Gi, names: gpu-%m-%ggb}\n"), inventory)),
              ElementsAre("nvidia.com/gpu:", "nvidia.com/gpu-h200-10gb: 0x14", "nvidia.com/gpu-l4-10gb: 1x2"));
  EXPECT_THAT(problems_of(mps("    - {name: gpu, replicas: 40, names: gpu-%ggb}\n"), inventory),
              ElementsAre(HasSubstr("has %g, but a slot of GPU 1 (" + uuid(1) + ") has 575 MiB, less than one GB")));
}

// Promise: plan/shares: The number of slots of a memory size is derived for each GPU.
TEST(Units, SlotsOfAMemoryAreDerivedForEachGpu) {
  auto inventory = gpus(2);
  inventory.gpus[1].memory = mib(15360);
  const Plan plan = plan_of(mps("    - {name: gpu, slotMemory: 4Gi}\n"), inventory);
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu: 0x35 1x3"));
  EXPECT_EQ(plan.resources[0].replicas, 0u) << "not of all the same";
  const Plan reserved = plan_of(mps("    - {name: gpu, slotMemory: 4Gi}\n", "reserve: auto"), inventory);
  EXPECT_THAT(described(reserved), ElementsAre("nvidia.com/gpu: 0x34 1x3"));
  EXPECT_EQ(reserved.resources[0].devices[0].share.memory, mib(4208)) << "(143771 - 681) / 34";
}

TEST(Units, FewerAndLargerSlotsThanAskedForAreANote) {
  const auto inventory = gpus(2, "NVIDIA H100 80GB HBM3", 81559);
  EXPECT_THAT(plan_of(mps("    - {name: gpu, slotMemory: 20Gi}\n"), inventory).notes,
              Contains("slotMemory 20Gi: 3 slots of 26.5 GiB on NVIDIA H100 80GB HBM3; 4 slots would be 19.9 GiB: "
                       "write 20G or replicas: 4"));
  EXPECT_THAT(
      plan_of(mps("    - {name: gpu, slotMemory: 60Gi}\n"), inventory).notes,
      Contains(HasSubstr("1 slot of 79.6 GiB on NVIDIA H100 80GB HBM3; 2 slots would be 39.8 GiB: write 40779Mi "
                         "or replicas: 2")));
  for (const char* size : {"20G", "4Gi"})
    EXPECT_THAT(plan_of(mps(std::string("    - {name: gpu, slotMemory: ") + size + "}\n"), inventory).notes,
                Not(Contains(HasSubstr("slotMemory"))))
        << size;
}

TEST(Units, SlotsInPiecesAreANoteWherePodsAreSpread) {
  const auto notes = [](const char* flags, std::uint32_t count) {
    return plan_of(flags + mps("    - {name: gpu, replicas: 10}\n"), gpus(count)).notes;
  };
  const auto is_noted = Contains(HasSubstr("refused once no single GPU has that many free; packed fills one GPU"));
  EXPECT_THAT(notes("", 4), is_noted);
  EXPECT_THAT(notes("flags: {plugin: {sharedDevicesAllocationPolicy: packed}}\n", 4), Not(is_noted));
  EXPECT_THAT(notes("", 1), Not(is_noted));
}

TEST(Units, AGpuThatHoldsNoSlotIsLeftOutWithTheReason) {
  auto inventory = gpus(2);
  inventory.gpus[1].memory = mib(15360);
  const Plan plan = plan_of(mps("    - {name: gpu, slotMemory: 40Gi}\n"), inventory);
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu: 0x3"));
  ASSERT_THAT(plan.left_out, SizeIs(1));
  EXPECT_EQ(plan.left_out[0].why, "its 15360 MiB hold no slot of 40Gi");
}

// Promise: plan/shares: With a thousand units clients are counted in place of slots.
TEST(Units, AThousandSlotsAreUnitsAndClientsAreCountedInstead) {
  const Plan plan = plan_of(mps("    - {name: gpu, replicas: 1000}\n"), gpus(2));
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu: 0x1000 1x1000"));
  EXPECT_THAT(plan.notes, Contains(HasSubstr("1000 slots are units of which a container holds several: MPS serves at "
                                             "most 48 clients")));
  EXPECT_THAT(
      problems_of(mps("    - {name: gpu, replicas: 1001}\n"), gpus(1)),
      ElementsAre("c.yaml:5:7: error: sharing.mps.resources[0].replicas: is 1001, and 1000 units of a device are "
                  "the most that can be counted; write replicas: 1000 or less"));
  EXPECT_THAT(problems_of("sharing: {mps: {resources: [{name: gpu, replicas: 60}]}}", gpus(1)),
              ElementsAre(HasSubstr("is 60, but MPS serves at most 48 clients on GPU 0")));
}

TEST(Units, SlotMemoryBeyondTheCeilingSaysWhatToWrite) {
  EXPECT_THAT(
      problems_of("sharing: {mps: {resources: [{name: gpu, slotMemory: 1Gi}]}}", gpus(1)),
      ElementsAre(testing::AllOf(HasSubstr("slotMemory: gives 140 slots, but MPS serves at most 48 clients on GPU "
                                           "0"),
                                 HasSubstr("write slotMemory: 2996Mi or more"))));
}

TEST(Units, OneSlotIsMpsWithoutThrottling) {
  const Plan plan = plan_of("sharing: {mps: {resources: [{name: gpu, replicas: 1}]}}", gpus(2));
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu: 0x1 1x1"));
  EXPECT_THAT(plan.pools, SizeIs(2));
  EXPECT_EQ(plan.pools[0].limits[0].client, (ShareLimits{mib(143771), Percent::whole(100), 132}));
}

TEST(Units, ASmallUnitSaysHowManyAContextTakes) {
  const Plan plan = plan_of(mps("    - {name: gpu, replicas: 1000}\n"), gpus(1, "Tesla T4", 15360));
  EXPECT_THAT(plan.notes,
              Contains(HasSubstr("a slot has 15 MiB, and a CUDA context alone takes 72 MiB: a container must "
                                 "ask for at least 5 slots")));
}

// Promise: plan/shares: Slots below the driver's minimums are a problem.
TEST(Floors, SlotsBelowTheDriversAreAProblem) {
  const auto one = [](const std::string& entry) { return "sharing: {mps: {resources: [{name: gpu, " + entry + "}]}}"; };
  EXPECT_THAT(
      problems_of(one("replicas: 4, threads: {sms: 6}"), gpus(1)),
      ElementsAre(HasSubstr("threads: asks 6 SMs a slot, and the driver gives at least 8; write sms: 8 or more")));
  EXPECT_THAT(
      problems_of(one("replicas: 4, threads: {sms: 140}"), gpus(1)),
      ElementsAre(HasSubstr("asks 140 SMs a slot, and GPU 0 (" + uuid(0) + ") has 132; write sms: 132 or less")));
  EXPECT_THAT(problems_of(one("replicas: 4, memory: 64Mi"), gpus(1)),
              ElementsAre(HasSubstr("memory: gives a slot of GPU 0 (" + uuid(0) +
                                    ") 64 MiB, and a CUDA context alone "
                                    "takes 72 MiB; write memory: 72Mi or more")));
  EXPECT_THAT(problems_of(one("replicas: 40"), gpus(1, "small", 2048)),
              ElementsAre(HasSubstr("replicas: gives a slot of GPU 0 (" + uuid(0) + ") 51 MiB")));
  EXPECT_THAT(
      problems_of(mps("    - {name: gpu, replicas: 4}\n", "reserve: 1Ti"), gpus(1)),
      ElementsAre(HasSubstr("sharing.mps.reserve: is 1048576 MiB, and GPU 0 (" + uuid(0) + ") has 143771 MiB")));
}

// Promise: plan/shares: `split: span` joins the GPUs of an entry into one pool.
TEST(Span, JoinsTheGpusOfTheEntryIntoOnePool) {
  const Plan plan = plan_of(mps("    - {name: gpu, replicas: 20, split: span}\n"), gpus(4));
  ASSERT_THAT(plan.pools, SizeIs(1));
  EXPECT_THAT(plan.pools[0].devices, ElementsAre(uuid(0), uuid(1), uuid(2), uuid(3)));
  for (const auto& device : plan.resources[0].devices) EXPECT_EQ(device.pool, plan.pools[0].id);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("GPUs 0-3 are one MPS pool (" + plan.pools[0].id + ")")));
  const Plan alone = plan_of(mps("    - {name: gpu, replicas: 20, split: span}\n"), gpus(1));
  EXPECT_TRUE(alone.pools[0].id.starts_with("gpu-")) << "one GPU is no set";
}

TEST(Span, JoinsTheGpusForClaimsWhereDraSplitSaysSo) {
  const Plan plan = plan_of("version: v1\ndra: {devices: all, split: span}\n", gpus(4));
  ASSERT_THAT(plan.pools, SizeIs(1));
  EXPECT_THAT(plan.pools[0].devices, SizeIs(4));
  for (const auto& device : plan.for_claims) EXPECT_EQ(device.pool, plan.pools[0].id);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("a request of a claim may have devices of several")));
  EXPECT_THAT(plan_of("version: v1\ndra: {devices: all}\n", gpus(4)).pools, SizeIs(4));
}

// Promise: plan/claims: A list in `dra.devices` gives its GPUs to claims and the others to the device plugin.
TEST(Split, TheGpusOfTheListAreForClaimsAndTheOthersForThePlugin) {
  const auto list = [](const std::string& devices) {
    return "version: v1\ndra: {devices: " + devices + "}\n" + mps("    - {name: gpu, replicas: 4}\n");
  };
  const auto for_claims = [](const Plan& plan) {
    std::vector<std::string> uuids;
    for (const auto& device : plan.for_claims) uuids.push_back(device.uuid);
    return uuids;
  };
  const Plan plan = plan_of(list("[1, 3, 7]"), gpus(4));
  EXPECT_THAT(described(plan), ElementsAre("nvidia.com/gpu: 0x4 2x4"));
  EXPECT_THAT(for_claims(plan), ElementsAre(uuid(1), uuid(3)));
  EXPECT_THAT(plan.pools, SizeIs(4));
  ASSERT_THAT(plan.left_out, SizeIs(1));
  EXPECT_EQ(plan.left_out[0].what, "dra.devices \"7\"");

  const Plan by_model = plan_of(list("[\"NVIDIA H*\"]"), gpus(4));
  EXPECT_THAT(for_claims(by_model), SizeIs(4));
  for (const auto& resource : by_model.resources) EXPECT_THAT(resource.devices, IsEmpty()) << resource.name;

  auto with_mig = gpus(2);
  make::add_mig(with_mig.gpus[1], "1g.18gb");
  const Plan mig = plan_of("version: v1\ndra: {devices: [1]}\n", with_mig);
  EXPECT_THAT(described(mig), ElementsAre("nvidia.com/gpu: 0"));
  EXPECT_THAT(for_claims(mig), ElementsAre("MIG-10"));
}

TEST(Span, ASetIsNamedByItsGpusInWhateverOrder) {
  EXPECT_EQ(set_id({uuid(0), uuid(1)}), set_id({uuid(1), uuid(0)}));
  EXPECT_NE(set_id({uuid(0), uuid(1)}), set_id({uuid(0), uuid(2)}));
}

TEST(Span, EntriesApartAreSetsApart) {
  const Plan plan = plan_of(each("    - {name: gpu, replicas: 4, devices: [0, 1], rename: a, split: span}\n"
                                 "    - {name: gpu, replicas: 2, devices: [2, 3], rename: b, split: span}\n"
                                 "    - {name: gpu, replicas: 2, devices: [4, 5], rename: c}\n"),
                            gpus(6));
  std::vector<std::size_t> sizes;
  for (const auto& pool : plan.pools) sizes.push_back(pool.devices.size());
  EXPECT_THAT(sizes, testing::UnorderedElementsAre(2, 2, 1, 1));
}

}  // namespace per_device_test
}  // namespace tranche::plan
