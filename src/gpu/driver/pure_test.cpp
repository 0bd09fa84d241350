// The parts of reading the driver library that need no library: names, layouts, sysfs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "gpu/driver/kernel_signs.h"
#include "gpu/driver/mig/mig.h"
#include "gpu/driver/processes.h"

namespace tranche::gpu::nvml {
namespace {

constexpr std::uint64_t kH200 = 150754820096;

// Promise: driver/mig: A MIG profile is named after its share of the parent's memory.
TEST(MigProfile, IsNamedAfterTheShareOfItsParentsMemory) {
  EXPECT_EQ(profile_text(1, 1, 16384, kH200, ""), "1g.18gb");
  EXPECT_EQ(profile_text(1, 1, 33280, kH200, ""), "1g.35gb");
  EXPECT_EQ(profile_text(3, 3, 71424, kH200, ""), "3g.71gb");
  EXPECT_EQ(profile_text(7, 7, 143360, kH200, ""), "7g.141gb");
  EXPECT_EQ(profile_text(1, 1, 4864, 42505601024, ""), "1g.5gb") << "A100 40 GB";
  EXPECT_EQ(profile_text(1, 1, 9728, 85899345920, ""), "1g.10gb") << "A100 80 GB";
  EXPECT_EQ(profile_text(1, 1, 20992, 183359ull << 20, ""), "1g.23gb") << "B200";
}

TEST(MigProfile, NamesSmallerComputeInstancesAndAttributes) {
  EXPECT_EQ(profile_text(2, 1, 33280, kH200, ""), "1c.2g.35gb");
  EXPECT_EQ(profile_text(1, 1, 16384, kH200, profile_suffix(7)), "1g.18gb+me");
  EXPECT_EQ(profile_suffix(15), "+me.all");
  EXPECT_EQ(profile_suffix(13), "-me");
  EXPECT_EQ(profile_suffix(10), "+gfx");
  EXPECT_EQ(profile_suffix(9), "");
}

TEST(MigProfile, SurvivesAParentWithoutMemory) {
  EXPECT_EQ(profile_text(1, 1, 16384, 0, ""), "1g.0gb");
}

class Stride : public testing::TestWithParam<std::size_t> {};

std::vector<std::byte> written_by_driver(std::size_t stride, std::uint32_t count) {
  std::vector<std::byte> buffer(65 * sizeof(ProcessInfo), kUnwritten);
  for (std::uint32_t i = 0; i < count; ++i) {
    const ProcessInfo entry{100 + i, 1000ull * (i + 1), kNoInstance, kNoInstance, 0};
    std::memcpy(buffer.data() + i * stride, &entry, stride);
  }
  return buffer;
}

TEST_P(Stride, IsFoundFromWhatWasWrittenWhateverWasDocumented) {
  for (const std::uint32_t count : {1u, 2u, 3u, 7u, 48u, 64u}) {
    const std::vector<std::byte> buffer = written_by_driver(GetParam(), count);
    EXPECT_EQ(stride_of(buffer, count), GetParam()) << count;
    const std::vector<ProcessInfo> entries = entries_of(buffer, count, GetParam());
    ASSERT_EQ(entries.size(), count);
    EXPECT_EQ(entries.back().pid, 99 + count);
    EXPECT_EQ(entries.back().used_gpu_memory, 1000ull * count);
    EXPECT_EQ(entries.back().gpu_instance, kNoInstance);
  }
}
INSTANTIATE_TEST_SUITE_P(OfEveryDriver, Stride, testing::Values(16, 24, 32));

TEST(Stride, IsTheDocumentedOneWhenTheDriverWroteMoreThanTheList) {
  std::vector<std::byte> buffer(10 * sizeof(ProcessInfo), std::byte{0});
  EXPECT_EQ(stride_of(buffer, 3), 24u);
  EXPECT_EQ(stride_of(buffer, 0), 24u);
}

TEST(ProcessList, NeverReadsBeyondItsBuffer) {
  std::vector<std::byte> buffer(40, std::byte{1});
  EXPECT_EQ(entries_of(buffer, 1000, 24).size(), 1u);
}

// Promise: driver/scan: A negative NUMA node of sysfs is unknown.
TEST(Sysfs, ReadsNumaNodeAndClassAndTakesNegativeAsUnknown) {
  char name[] = "/tmp/trn-sysfs-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::filesystem::path root = name;
  const auto write = [&root](const std::string& address, const char* file, const char* text) {
    const auto folder = root / "sys/bus/pci/devices" / address;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / file) << text;
  };
  write("0000:3b:00.0", "numa_node", "1\n");
  write("0000:3b:00.0", "class", "0x030200\n");
  write("0000:af:00.0", "numa_node", "-1\n");
  write("0000:af:00.0", "class", "rubbish\n");
  write("0000:d9:00.0", "numa_node", "one\n");
  const auto numa = [&root](const char* address) {
    const auto node = numa_node_of(root, address);
    EXPECT_TRUE(node) << address;
    return node.value_or(std::nullopt);
  };
  EXPECT_EQ(numa("00000000:3B:00.0"), 1u);
  EXPECT_EQ(pci_class_of(root, "00000000:3B:00.0"), 0x030200u);
  EXPECT_EQ(numa("00000000:AF:00.0"), std::nullopt);
  EXPECT_EQ(pci_class_of(root, "00000000:AF:00.0"), std::nullopt);
  EXPECT_EQ(numa("00000000:D8:00.0"), std::nullopt);
  const auto word = numa_node_of(root, "00000000:D9:00.0");
  ASSERT_FALSE(word);
  EXPECT_EQ(word.error().kind, Kind::kInvalid);
  EXPECT_NE(word.error().what.find("\"one\""), std::string::npos);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace tranche::gpu::nvml
