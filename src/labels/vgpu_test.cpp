#include "labels/pci.h"

#include <gtest/gtest.h>

namespace tranche::labels {
namespace vgpu_test {

// A configuration space with these bytes at `at`, reached through the list of capabilities.
class ConfigSpace {
 public:
  ConfigSpace() {
    set(0x06, 0x10);
    set(0x34, 0x40);
  }
  void set(std::size_t at, int value) { bytes_[at] = static_cast<char>(value); }
  void put(std::size_t at, std::string_view bytes) { bytes_.replace(at, bytes.size(), bytes); }
  // (id, next, length, …)
  void capability(std::size_t at, int id, int next, int length) {
    set(at, id);
    set(at + 1, next);
    set(at + 2, length);
  }
  // Like a T4 in a virtual machine: one record of the host's driver, 27 bytes in all.
  void virtual_gpu(std::size_t at, int next = 0) {
    capability(at, 0x09, next, 27);
    put(at + 3, std::string_view("VF\0\x16"
                                 "460.16\0\0\0\0"
                                 "r460_00\0\0\0",
                                 24));
  }
  std::string bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(256, '\0');
};

Vgpu vgpu(const ConfigSpace& space) {
  const auto vgpu = vgpu_of(space.bytes());
  EXPECT_TRUE(vgpu);
  return vgpu.value_or(Vgpu{});
}

TEST(VgpuCapability, ReadsTheHostsDriver) {
  ConfigSpace space;
  space.virtual_gpu(0x40);
  EXPECT_EQ(vgpu(space), (Vgpu{true, "460.16", "r460_00"}));
  ConfigSpace behind_another;
  behind_another.capability(0x40, 0x05, 0xd0, 0);
  behind_another.virtual_gpu(0xd0, 0x68);
  EXPECT_EQ(vgpu(behind_another), (Vgpu{true, "460.16", "r460_00"}));
}

TEST(VgpuCapability, IsNotThereOnAGpuThatIsPassedThrough) {
  ConfigSpace none;
  EXPECT_EQ(vgpu(none), Vgpu{});
  ConfigSpace unsigned_one;
  unsigned_one.capability(0x40, 0x09, 0, 20);
  EXPECT_EQ(vgpu(unsigned_one), Vgpu{});
  ConfigSpace without_list;
  without_list.virtual_gpu(0x40);
  without_list.set(0x06, 0);
  EXPECT_EQ(vgpu(without_list), Vgpu{});
  ConfigSpace short_one;
  short_one.virtual_gpu(0x40);
  short_one.set(0x42, 5);
  EXPECT_EQ(vgpu(short_one), Vgpu{}) << "no room for a record";
}

TEST(VgpuCapability, IsFoundBehindOneWithoutTheSignature) {
  ConfigSpace space;
  space.capability(0x40, 0x09, 0x80, 8);
  space.virtual_gpu(0x80);
  EXPECT_TRUE(vgpu(space).present);
}

TEST(VgpuCapability, SkipsOtherRecordsAndMayLackTheDrivers) {
  ConfigSpace space;
  space.capability(0x40, 0x09, 0, 31);
  space.put(0x43, std::string_view("VF\x07\x04??", 6));
  space.put(0x49, std::string_view("\0\x16"
                                   "550.9\0\0\0\0\0"
                                   "r550_1\0\0\0\0",
                                   22));
  EXPECT_EQ(vgpu(space), (Vgpu{true, "550.9", "r550_1"}));
  space.set(0x42, 20);
  EXPECT_EQ(vgpu(space), (Vgpu{true, "", ""})) << "the record is cut off";
  space.set(0x46, 0);
  EXPECT_EQ(vgpu(space), (Vgpu{true, "", ""})) << "a record without a length leads nowhere";
}

TEST(VgpuCapability, AListThatGoesRoundOrBreaksEnds) {
  ConfigSpace round;
  round.capability(0x40, 0x05, 0x50, 0);
  round.capability(0x50, 0x05, 0x40, 0);
  EXPECT_EQ(vgpu(round), Vgpu{});
  ConfigSpace broken;
  broken.capability(0x40, 0xff, 0x50, 0);
  broken.virtual_gpu(0x50);
  EXPECT_EQ(vgpu(broken), Vgpu{});
  ConfigSpace at_the_end;
  at_the_end.set(0x34, 0xff);
  EXPECT_EQ(vgpu(at_the_end), Vgpu{});
}

TEST(VgpuCapability, NeedsTheWholeSpace) {
  ConfigSpace space;
  const auto part = vgpu_of(space.bytes().substr(0, 64));
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().kind, Kind::kDenied);
  EXPECT_TRUE(vgpu_of(space.bytes() + std::string(3840, '\0'))) << "PCI Express has 4096 bytes";
}

}  // namespace vgpu_test
}  // namespace tranche::labels
