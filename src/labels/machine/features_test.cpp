#include "labels/machine/features.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch_fixture.h"

namespace tranche::labels {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The files of a system below a folder.
class Features : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root() + path).parent_path());
    std::ofstream(root() + path, std::ios::binary) << text;
  }
  std::string function(const std::string& address) const { return "/sys/bus/pci/devices/" + address; }
  void add_function(const std::string& address, const std::string& vendor, const std::string& pci_class,
                    const std::string& config = std::string(256, '\0')) {
    write(function(address) + "/vendor", vendor + "\n");
    write(function(address) + "/class", pci_class + "\n");
    write(function(address) + "/device", "0x2335\n");
    write(function(address) + "/config", config);
  }
  void bind(const std::string& address, const std::string& driver) {
    fs::create_directories(root() + "/sys/bus/pci/drivers/" + driver);
    fs::create_symlink("../../drivers/" + driver, root() + function(address) + "/driver");
  }
  static std::string virtual_gpu(const std::string& version) {
    std::string config(256, '\0');
    config[0x06] = 0x10;
    config[0x34] = 0x40;
    config.replace(0x40, 7, std::string("\x09\0\x1bVF\0\x16", 7));
    config.replace(0x47, version.size(), version);
    return config;
  }
  std::string root() const { return scratch_.path(); }

  os::Scratch scratch_;
};

TEST_F(Features, TheMachineTypeIsTheFilesContentOrUnknown) {
  write("/product_name", "  Acme Node 9 \n");
  EXPECT_EQ(read_machine_type(root() + "/product_name"), "Acme Node 9");
  write("/product_name", "\n");
  EXPECT_EQ(read_machine_type(root() + "/product_name"), "unknown");
  EXPECT_EQ(read_machine_type(root() + "/absent"), "unknown");
  EXPECT_EQ(read_machine_type(root()), "unknown") << "a folder";
  EXPECT_EQ(read_machine_type(""), "unknown");
}

TEST_F(Features, OfVirtualGpusTheLastByAddressIdentifiesTheHost) {
  add_function("0000:02:00.0", "0x10de", "0x030200", virtual_gpu("550.1"));
  add_function("0000:01:00.0", "0x10de", "0x030200", virtual_gpu("460.16"));
  add_function("0000:03:00.0", "0x10de", "0x040300");
  add_function("0000:04:00.0", "0x8086", "0x030000", "short");
  const auto vgpu = read_vgpu(root());
  ASSERT_TRUE(vgpu) << to_string(vgpu.error());
  EXPECT_EQ(*vgpu, (Vgpu{true, "550.1", ""}));
}

TEST_F(Features, NoVirtualGpuIsKnownToBeNone) {
  fs::create_directories(root() + "/sys/bus/pci/devices");
  EXPECT_EQ(read_vgpu(root()).value_or(Vgpu{true, "", ""}), Vgpu{});
  add_function("0000:01:00.0", "0x10de", "0x030200");
  EXPECT_EQ(read_vgpu(root()).value_or(Vgpu{true, "", ""}), Vgpu{});
}

TEST_F(Features, WhetherThereAreVirtualGpusIsUnknownWhereAFunctionCannotBeReadWhole) {
  EXPECT_FALSE(read_vgpu(root())) << "no PCI at all";
  add_function("0000:01:00.0", "0x10de", "0x030200", virtual_gpu("460.16"));
  add_function("0000:02:00.0", "0x10de", "0x030200", std::string(64, '\0'));
  const auto vgpu = read_vgpu(root());
  ASSERT_FALSE(vgpu);
  EXPECT_EQ(vgpu.error().kind, Kind::kDenied);
  EXPECT_THAT(vgpu.error().where, HasSubstr("0000:02:00.0"));
}

TEST_F(Features, GpusBoundToVfioAreFoundWithWhatIsKnownOfThem) {
  for (const char* address : {"0000:03:00.0", "0000:01:00.0", "0000:02:00.0", "0000:04:00.0", "0000:05:00.0"})
    add_function(address, "0x10de", "0x030200");
  add_function("0000:06:00.0", "0x10de", "0x040300");
  for (const char* address : {"0000:01:00.0", "0000:03:00.0", "0000:04:00.0", "0000:06:00.0"})
    bind(address, "vfio-pci");
  bind("0000:02:00.0", "nvidia");
  fs::create_directory(root() + function("0000:04:00.0") + "/physfn");  // a virtual function of another
  write(function("0000:01:00.0") + "/resource", "0x0 0x0 0x0\n0x10000000000 0x13fffffffff 0x14220c\n");
  write("/usr/share/misc/pci.ids", "10de  NVIDIA Corporation\n\t2335  GH100 [H200 SXM 141GB]\n");
  write(function("0000:03:00.0") + "/device", "0x9999\n");
  const auto node = find_passed_through(root());
  ASSERT_TRUE(node) << to_string(node.error());
  ASSERT_EQ(node->gpus.size(), 2u);
  EXPECT_EQ(node->gpus[0].name, "GH100 [H200 SXM 141GB]");
  EXPECT_EQ(node->gpus[0].memory, gib(256));
  EXPECT_EQ(node->gpus[0].pci_bus_id, "0000:01:00.0");
  EXPECT_EQ(node->gpus[0].pci_class, 0x030200u);
  EXPECT_EQ(node->gpus[0].compute_capability, (gpu::ComputeCapability{0, 0}));
  EXPECT_EQ(node->gpus[1].name, "UNKNOWN_DEVICE");
  EXPECT_EQ(node->gpus[1].memory, Bytes{});
  EXPECT_EQ(node->driver_version, "unknown.unknown.unknown");
}

TEST_F(Features, ANodeWithoutThemHasNone) {
  add_function("0000:01:00.0", "0x10de", "0x030200");
  const auto node = find_passed_through(root());
  ASSERT_TRUE(node);
  EXPECT_THAT(node->gpus, IsEmpty());
}

}  // namespace
}  // namespace tranche::labels
