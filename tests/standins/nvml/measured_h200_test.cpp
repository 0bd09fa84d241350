// The results of a machine with four H200 (driver 580.159.04), row by row: the stand-in must return the same.
#include <gtest/gtest.h>

#include <optional>

#include "nvml_probe.h"

namespace tranche::sim::nvml {
namespace {

TEST(MeasuredH200, Memory) {
  const Session s(kFourH200);
  const auto v1 = s.get<Memory>("nvmlDeviceGetMemoryInfo", s.device(0));
  EXPECT_EQ(v1.total, 150754820096u);
  EXPECT_EQ(v1.free, 150109880320u);
  EXPECT_EQ(v1.used, 644939776u);
  MemoryV2 v2{.version = 0x02000028, .total = 0, .reserved = 0, .free = 0, .used = 0};
  ASSERT_EQ(s.nvml("nvmlDeviceGetMemoryInfo_v2", s.device(0), &v2), kSuccess);
  EXPECT_EQ(v2.total, 150754820096u);
  EXPECT_EQ(v2.reserved, 644939776u);
  EXPECT_EQ(v2.free, 150109880320u);
  EXPECT_EQ(v2.used, 0u);
}

TEST(MeasuredH200, Identity) {
  const Session s(kFourH200);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetCount_v2"), 4u);
  const char* const bus[] = {"00000000:00:06.0", "00000000:00:07.0", "00000000:00:08.0", "00000000:00:09.0"};
  for (u32 i = 0; i < 4; ++i) {
    const Device device = s.device(i);
    EXPECT_EQ(s.text("nvmlDeviceGetName", device), "NVIDIA H200");
    const auto pci = s.get<PciInfo>("nvmlDeviceGetPciInfo_v3", device);
    EXPECT_STREQ(pci.bus_id, bus[i]);
    EXPECT_STREQ(pci.bus_id_legacy, bus[i] + 4);
    EXPECT_EQ(pci.pci_device_id, 0x233510deu);
    EXPECT_EQ(pci.pci_subsystem_id, 0x18bf10deu);
    EXPECT_EQ(s.get<u32>("nvmlDeviceGetMinorNumber", device), i);
  }
  const Device first = s.device(0);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetArchitecture", first), 9u);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetBrand", first), 14u);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetNumGpuCores", first), 16896u);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetPersistenceMode", first), 1u);
  EXPECT_EQ(s.get<u32>("nvmlDeviceGetComputeMode", first), 0u);
  EXPECT_EQ(s.text("nvmlDeviceGetVbiosVersion", first), "96.00.a5.00.1a");
  EXPECT_EQ(s.get<u64>("nvmlDeviceGetSupportedEventTypes", first), 0xff9fu);
  i32 major = 0, minor = 0;
  ASSERT_EQ(s.nvml("nvmlDeviceGetCudaComputeCapability", first, &major, &minor), kSuccess);
  EXPECT_EQ(major * 10 + minor, 90);
  u32 current = 7, pending = 7;
  ASSERT_EQ(s.nvml("nvmlDeviceGetMigMode", first, &current, &pending), kSuccess);
  EXPECT_EQ(current + pending, 0u);
  char driver[80];
  ASSERT_EQ(s.nvml("nvmlSystemGetDriverVersion", &driver[0], u32{80}), kSuccess);
  EXPECT_STREQ(driver, "580.159.04");
  ASSERT_EQ(s.nvml("nvmlSystemGetNVMLVersion", &driver[0], u32{80}), kSuccess);
  EXPECT_STREQ(driver, "13.580.159.04");
  EXPECT_EQ(s.get<i32>("nvmlSystemGetCudaDriverVersion_v2"), 13000);
}

TEST(MeasuredH200, GpuInstanceProfiles) {
  const Session s(kFourH200);
  struct Row {
    u32 enum_value, id, slices, instances, sms, mib, ce, dec, enc, jpg, ofa;
  };
  constexpr Row kRows[] = {{0, 19, 1, 7, 16, 16384, 1, 1, 0, 1, 0},  {1, 14, 2, 3, 32, 33280, 2, 2, 0, 2, 0},
                           {2, 9, 3, 2, 60, 71424, 3, 3, 0, 3, 0},   {3, 5, 4, 1, 64, 71424, 4, 4, 0, 4, 0},
                           {4, 0, 7, 1, 132, 143360, 8, 7, 0, 7, 1}, {7, 20, 1, 1, 16, 16384, 1, 1, 0, 1, 1},
                           {9, 15, 1, 4, 26, 33280, 1, 1, 0, 1, 0}};
  for (u32 value = 0; value < 24; ++value) {
    const Row* row = nullptr;
    for (const Row& candidate : kRows) row = candidate.enum_value == value ? &candidate : row;
    GiProfileInfo info{};
    const Return result = s.nvml("nvmlDeviceGetGpuInstanceProfileInfo", s.device(0), value, &info);
    if (row == nullptr) {
      EXPECT_EQ(result, value <= 16 ? kNotSupported : kInvalidArgument) << value;
      continue;
    }
    ASSERT_EQ(result, kSuccess) << value;
    const Row got{
        value,         info.id,       info.slices, info.max_count, info.sms, u32(info.memory_mib), info.copy_engines,
        info.decoders, info.encoders, info.jpegs,  info.ofas};
    EXPECT_EQ(memcmp(&got, row, sizeof(got)), 0) << value;
  }
}

TEST(MeasuredH200, Placements) {
  const Session s(kFourH200);
  struct Row {
    u32 id, size;
    std::vector<u32> starts;
  };
  const Row rows[] = {{19, 1, {0, 1, 2, 3, 4, 5, 6}},
                      {20, 1, {0, 1, 2, 3, 4, 5, 6}},
                      {15, 2, {0, 2, 4, 6}},
                      {14, 2, {0, 2, 4}},
                      {9, 4, {0, 4}},
                      {5, 4, {0}},
                      {0, 8, {0}}};
  for (const Row& row : rows) {
    u32 count = 0;
    Placement* nowhere = nullptr;
    ASSERT_EQ(s.nvml("nvmlDeviceGetGpuInstancePossiblePlacements_v2", s.device(0), row.id, nowhere, &count), kSuccess);
    ASSERT_EQ(count, row.starts.size()) << row.id;
    Placement placements[8] = {};
    ASSERT_EQ(s.nvml("nvmlDeviceGetGpuInstancePossiblePlacements_v2", s.device(0), row.id, &placements[0], &count),
              kSuccess);
    for (u32 i = 0; i < count; ++i) {
      EXPECT_EQ(placements[i].start, row.starts[i]);
      EXPECT_EQ(placements[i].size, row.size);
    }
  }
}

TEST(MeasuredH200, LinksAndTopology) {
  const Session s(kFourH200);
  for (u32 link = 0; link < 18; ++link) {
    EXPECT_EQ(s.get<u32>("nvmlDeviceGetNvLinkState", s.device(0), link), 1u);
    EXPECT_STREQ(s.get<PciInfo>("nvmlDeviceGetNvLinkRemotePciInfo_v2", s.device(0), link).bus_id, "FFFFFFFF:FF:FF.0");
  }
  u32 state = 0;
  EXPECT_EQ(s.nvml("nvmlDeviceGetNvLinkState", s.device(0), u32{18}, &state), kInvalidArgument);
  for (u32 other = 1; other < 4; ++other) {
    EXPECT_EQ(s.get<u32>("nvmlDeviceGetTopologyCommonAncestor", s.device(0), s.device(other)), 30u);
  }
  unsigned long cpus[2] = {};
  ASSERT_EQ(s.nvml("nvmlDeviceGetCpuAffinity", s.device(0), u32{2}, &cpus[0]), kSuccess);
  EXPECT_EQ(cpus[0], ~0ul) << "CPUs 0-63";
  EXPECT_EQ(cpus[1], 0ul);
  FieldValue fields[2] = {};
  fields[0].field_id = 90;
  fields[1].field_id = 91;
  ASSERT_EQ(s.nvml("nvmlDeviceGetFieldValues", s.device(0), i32{2}, &fields[0]), kSuccess);
  EXPECT_EQ(fields[0].value.ui, 26562u);
  EXPECT_EQ(fields[1].value.ui, 18u);
}

}  // namespace
}  // namespace tranche::sim::nvml
