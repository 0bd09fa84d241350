#include "cdi/live/cdi_specs.h"

#include <gmock/gmock.h>

#include "os/files/tree_fixture.h"

namespace tranche::cdi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Found at(const std::string& path) {
  return {path, path};
}

class DriverFilesTest : public testing::Test {
 protected:
  DriverFilesTest() {
    tree_.directory("/system");
    inventory_.driver_version = "580.1";
    gpu::Gpu gpu;
    gpu.uuid = "GPU-1";
    gpu.minor = 3;
    gpu.pci_bus_id = "00000000:3B:00.0";
    inventory_.gpus.push_back(gpu);
  }
  DriverFiles find() {
    auto found = find_driver_files(config_, driver_root_, system_root_, inventory_);
    EXPECT_TRUE(found) << to_string(found.error());
    return found.value_or(DriverFiles{});
  }
  static std::vector<std::string> paths(const std::set<Found>& all) {
    std::vector<std::string> paths;
    for (const Found& found : all) paths.push_back(found.path);
    return paths;
  }
  void make_libraries(const std::string& folder = "/driver/usr/lib64") const {
    tree_.file(folder + "/libcuda.so.580.1");
    tree_.file(folder + "/libnvidia-ml.so.580.1");
  }

  os::Tree tree_;
  config::Config config_;
  std::string driver_root_ = tree_.path("/driver");
  std::string system_root_ = tree_.path("/system");
  gpu::Inventory inventory_;
};

TEST_F(DriverFilesTest, AreTheLibrariesOfThisDriverVersionAndTheLinksToThem) {
  make_libraries();
  tree_.file("/driver/usr/lib64/libnvidia-ml.so.570.9");
  tree_.file("/driver/usr/lib64/libc.so.6");
  tree_.file("/driver/usr/lib64/vdpau/libvdpau_nvidia.so.580.1");
  tree_.file("/driver/usr/lib64/libnvidia-egl-gbm.so.1.1.2");
  tree_.link("/driver/usr/lib64/libcuda.so.1", "libcuda.so.580.1");
  tree_.link("/driver/usr/lib64/libcuda.so", "libcuda.so.1");
  tree_.link("/driver/usr/lib64/gbm/nvidia-drm_gbm.so", "../libnvidia-ml.so.580.1");
  tree_.link("/driver/usr/lib64/libm.so", "libm.so.6");
  const DriverFiles files = find();
  EXPECT_EQ(files.library_dir, "/usr/lib64");
  EXPECT_THAT(paths(files.libraries),
              ElementsAre("/usr/lib64/libcuda.so.580.1", "/usr/lib64/libnvidia-egl-gbm.so.1.1.2",
                          "/usr/lib64/libnvidia-ml.so.580.1", "/usr/lib64/vdpau/libvdpau_nvidia.so.580.1"));
  EXPECT_THAT(files.links,
              ElementsAre(Link{"/usr/lib64/gbm/nvidia-drm_gbm.so", "../libnvidia-ml.so.580.1",
                               "/usr/lib64/libnvidia-ml.so.580.1"},
                          Link{"/usr/lib64/libcuda.so", "libcuda.so.1", "/usr/lib64/libcuda.so.580.1"},
                          Link{"/usr/lib64/libcuda.so.1", "libcuda.so.580.1", "/usr/lib64/libcuda.so.580.1"}));
}

TEST_F(DriverFilesTest, AreFoundWhereALinkLeadsInsideTheRoot) {
  make_libraries("/driver/opt/nvidia/current");
  tree_.link("/driver/etc/alternatives/libcuda.so.1", "/opt/nvidia/current/libcuda.so.580.1");
  tree_.link("/driver/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/etc/alternatives/libcuda.so.1");
  const DriverFiles files = find();
  EXPECT_EQ(files.library_dir, "/opt/nvidia/current");
  EXPECT_THAT(files.libraries, SizeIs(2));
}

TEST_F(DriverFilesTest, AreFoundWhereTheLoaderLooks) {
  make_libraries("/driver/opt/driver/lib64");
  tree_.file("/driver/etc/ld.so.conf.d/nvidia.conf", "# the driver\n  /opt/driver/lib64  # here\nrelative\n");
  EXPECT_EQ(find().library_dir, "/opt/driver/lib64");
}

TEST_F(DriverFilesTest, AreAnErrorWithoutThisDriversLibrary) {
  tree_.file("/driver/usr/lib64/libcuda.so.570.9");
  tree_.link("/driver/usr/lib64/libcuda.so.1", "libcuda.so.570.9");
  const auto found = find_driver_files(config_, driver_root_, system_root_, inventory_);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, Kind::kNotFound);
  EXPECT_THAT(to_string(found.error()), HasSubstr("the driver's libcuda.so.580.1 is in none of the usual folders"));
  EXPECT_EQ(found.error().where, driver_root_);
}

TEST_F(DriverFilesTest, AreThoseOfThisProcessWhereTheDriverRootIsNotThere) {
  driver_root_ = tree_.path("/none");
  const auto found = find_driver_files(config_, driver_root_, system_root_, inventory_);
  ASSERT_FALSE(found) << "no machine has this driver version";
  EXPECT_EQ(found.error().where, "/");
  inventory_.platform = gpu::Platform::kWsl;  // needs no libcuda
  EXPECT_TRUE(find().nodes_in_driver_root);
  EXPECT_FALSE(find().hook_program_missing) << "proves nothing of the host";
}

TEST_F(DriverFilesTest, NameGraphicsLibrariesApartBecauseOnlyAFeatureFlagAsksForThem) {
  make_libraries();
  tree_.file("/driver/usr/lib64/libEGL.so.1.1.0");
  tree_.link("/driver/usr/lib64/libEGL.so.1", "libEGL.so.1.1.0");
  const DriverFiles files = find();
  EXPECT_THAT(files.explicit_libraries, ElementsAre(at("/usr/lib64/libEGL.so.1.1.0")));
  EXPECT_THAT(paths(files.libraries), testing::Not(testing::Contains(HasSubstr("libEGL"))));
}

TEST_F(DriverFilesTest, AreGraphicsConfigurationFirmwareAndPrograms) {
  make_libraries();
  tree_.file("/driver/usr/share/glvnd/egl_vendor.d/10_nvidia.json");
  tree_.file("/driver/etc/vulkan/icd.d/nvidia_icd.json");
  tree_.file("/driver/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json");
  tree_.link("/driver/lib", "usr/lib");
  tree_.file("/driver/usr/lib/firmware/nvidia/580.1/gsp_ga10x.bin");
  tree_.file("/driver/usr/lib/firmware/nvidia/570.9/gsp_ga10x.bin");
  tree_.file("/system/sys/module/firmware_class/parameters/path", "/run/fw\n");
  tree_.file("/driver/run/fw/nvidia/580.1/gsp_tu10x.bin");
  tree_.file("/driver/usr/bin/nvidia-smi", "x", true);
  tree_.file("/driver/usr/local/bin/nvidia-smi", "x", false);
  tree_.file("/driver/usr/bin/nvidia-cuda-mps-control", "x", true);
  const DriverFiles files = find();
  EXPECT_THAT(files.files, ElementsAre(at("/etc/vulkan/icd.d/nvidia_icd.json"),
                                       Found{"/lib/firmware/nvidia/580.1/gsp_ga10x.bin",
                                             "/usr/lib/firmware/nvidia/580.1/gsp_ga10x.bin"},
                                       at("/run/fw/nvidia/580.1/gsp_tu10x.bin"),
                                       at("/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json"),
                                       at("/usr/share/glvnd/egl_vendor.d/10_nvidia.json")));
  EXPECT_THAT(files.binaries, ElementsAre(at("/usr/bin/nvidia-cuda-mps-control"), at("/usr/bin/nvidia-smi")));
}

TEST_F(DriverFilesTest, AreTheSocketsOfTheDriversDaemons) {
  make_libraries();
  tree_.link("/driver/var/run", "/run");
  tree_.file("/driver/run/nvidia-persistenced/socket");
  tree_.directory("/driver/tmp/nvidia-mps");
  const DriverFiles files = find();
  EXPECT_THAT(files.sockets, ElementsAre(at("/run/nvidia-persistenced/socket")));
  EXPECT_THAT(files.mps_pipe, ElementsAre(at("/tmp/nvidia-mps")));
}

struct HookCase {
  const char* name;
  std::string driver_root, program;  // on the host
  bool missing;
};
class HookProgramTest : public DriverFilesTest, public testing::WithParamInterface<HookCase> {};

TEST_P(HookProgramTest, IsJudgedOnlyWhereItCanBeSeen) {
  make_libraries();
  tree_.file("/driver/usr/bin/nvidia-ctk", "x", true);
  tree_.file("/driver/usr/bin/no-program", "x", false);
  config_.flags.nvidia_driver_root = GetParam().driver_root;
  config_.flags.plugin.nvidia_ctk_path = GetParam().program;
  EXPECT_EQ(find().hook_program_missing, GetParam().missing);
}

INSTANTIATE_TEST_SUITE_P(Programs, HookProgramTest,
                         testing::Values(HookCase{"There", "/", "/usr/bin/nvidia-ctk", false},
                                         HookCase{"NotThere", "/", "/usr/bin/nvidia-cdi-hook", true},
                                         HookCase{"NoProgram", "/", "/usr/bin/no-program", true},
                                         HookCase{"BelowTheDriverRoot", "/run/driver", "/run/driver/usr/bin/nvidia-ctk",
                                                  false},
                                         HookCase{"ElsewhereOnTheHost", "/run/driver", "/usr/bin/nvidia-ctk", false}),
                         [](const auto& row) { return row.param.name; });

class DriverNodes : public DriverFilesTest {
 protected:
  void SetUp() override {
    if (!tree_.node("/probe")) GTEST_SKIP() << "device nodes may not be made here (mknod)";
    make_libraries();
  }
  void nodes(const std::string& root, const std::vector<std::string>& names) const {
    for (const auto& name : names) ASSERT_TRUE(tree_.node(root + "/dev/" + name));
  }
};

TEST_F(DriverNodes, AreThoseOfTheGpusOfTheInventoryAndTheControlNodes) {
  nodes("/driver", {"nvidia3", "nvidia4", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap12"});
  tree_.file("/driver/dev/nvidia-modeset", "no device");
  inventory_.gpus[0].mig_devices.resize(1);
  inventory_.gpus[0].mig_devices[0].gi_cap = 12;
  inventory_.gpus[0].mig_devices[0].ci_cap = 13;
  const auto found = find();
  EXPECT_TRUE(found.nodes_in_driver_root);
  EXPECT_THAT(paths(found.gpu_nodes), ElementsAre("/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia3"));
  EXPECT_THAT(paths(found.control_nodes), ElementsAre("/dev/nvidia-uvm", "/dev/nvidiactl"));
}

TEST_F(DriverNodes, AreThoseOfTheSystemWhereTheDriverRootHasNoDev) {
  nodes("/system", {"nvidia3"});
  const auto found = find();
  EXPECT_FALSE(found.nodes_in_driver_root);
  EXPECT_THAT(paths(found.gpu_nodes), ElementsAre("/dev/nvidia3"));
}

TEST_F(DriverNodes, OfDrmAreFoundByTheGpusAddress) {
  nodes("/driver", {"dri/card0", "dri/card1", "dri/renderD129"});
  tree_.link("/driver/dev/dri/by-path/pci-0000:3b:00.0-card", "../card1");
  tree_.link("/driver/dev/dri/by-path/pci-0000:3b:00.0-render", "../card0");  // of another function: not included
  tree_.directory("/system/sys/devices/pci0/0000:3b:00.0/drm/card1");
  tree_.directory("/system/sys/devices/pci0/0000:3b:00.0/drm/renderD129");
  tree_.directory("/system/sys/devices/pci0/0000:3b:00.0/drm/controlD64");
  tree_.link("/system/sys/bus/pci/devices/0000:3b:00.0", "../../../devices/pci0/0000:3b:00.0");
  const DriverFiles files = find();
  ASSERT_TRUE(files.drm.contains("GPU-1"));
  EXPECT_THAT(paths(files.drm.at("GPU-1").nodes), ElementsAre("/dev/dri/card1", "/dev/dri/renderD129"));
  EXPECT_THAT(files.drm.at("GPU-1").by_path_links,
              ElementsAre(Link{"/dev/dri/by-path/pci-0000:3b:00.0-card", "../card1", "/dev/dri/card1"}));
}

TEST_F(DriverNodes, OfOtherClassesAreFound) {
  nodes("/driver", {"gdrdrv", "nvidia-fs0", "nvidia-fs1", "infiniband/uverbs0", "infiniband/rdma_cm",
                    "infiniband/umad0", "nvidia-caps-imex-channels/channel0"});
  tree_.file("/driver/etc/cufile.json");
  tree_.directory("/driver/run/udev");
  const DriverFiles files = find();
  EXPECT_THAT(paths(files.gdrcopy), ElementsAre("/dev/gdrdrv"));
  EXPECT_THAT(paths(files.gds), ElementsAre("/dev/nvidia-fs0", "/dev/nvidia-fs1"));
  EXPECT_THAT(paths(files.gds_files), ElementsAre("/etc/cufile.json", "/run/udev"));
  EXPECT_THAT(paths(files.mofed), ElementsAre("/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"));
  EXPECT_EQ(files.imex_channel.value_or(Found{}).path, "/dev/nvidia-caps-imex-channels/channel0");
}

TEST_F(DriverNodes, OfAWslSystemAreOneWithTheLibrariesOfWindows) {
  inventory_ = {};
  inventory_.platform = gpu::Platform::kWsl;
  nodes("/driver", {"dxg"});
  tree_.file("/driver/usr/lib/wsl/lib/libcuda.so.1");
  tree_.file("/driver/usr/lib/wsl/lib/nvidia-smi");
  const DriverFiles files = find();
  EXPECT_THAT(paths(files.gpu_nodes), ElementsAre("/dev/dxg"));
  EXPECT_THAT(paths(files.libraries), ElementsAre("/usr/lib/wsl/lib/libcuda.so.1"));
  EXPECT_THAT(files.links,
              ElementsAre(Link{"/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"}));
}

// ---- Tegra

class TegraFiles : public DriverFilesTest {
 protected:
  static constexpr const char* kFolder = "/etc/nvidia-container-runtime/host-files-for-container.d";
  TegraFiles() {
    inventory_ = {};
    inventory_.platform = gpu::Platform::kTegra;
    tree_.directory("/driver");
  }
};

TEST_F(TegraFiles, AreWhatTheCsvFilesNameAndIsThere) {
  const std::string folder = std::string("/driver") + kFolder;
  tree_.file(folder + "/devices.csv", "dev, /dev/nvhost-*\ndev, /dev/none\n");
  tree_.file(folder + "/drivers.csv",
             "lib, /usr/lib/tegra/libcuda.so\nlib, /usr/lib/tegra/none.so\ndir, /lib/firmware/tegra23x\n");
  tree_.file(folder + "/l4t.csv", "sym, /usr/lib/libcuda.so.1\nsym, /etc/vulkan/nvidia_icd.json\nfile, /x\n");
  tree_.file("/driver/usr/lib/tegra/libcuda.so.1.1");
  tree_.link("/driver/usr/lib/tegra/libcuda.so", "libcuda.so.1.1");
  tree_.link("/driver/usr/lib/libcuda.so.1", "tegra/libcuda.so.1.1");
  tree_.file("/driver/usr/lib/tegra/nvidia_icd.json");
  tree_.link("/driver/etc/vulkan/nvidia_icd.json", "/usr/lib/tegra/nvidia_icd.json");
  tree_.directory("/driver/lib/firmware/tegra23x");
  const bool nodes = tree_.node("/driver/dev/nvhost-ctrl");
  const auto found = find();
  EXPECT_THAT(found.gpu_nodes, SizeIs(nodes ? 1 : 0));
  EXPECT_THAT(found.libraries, ElementsAre(at("/usr/lib/tegra/libcuda.so.1.1")));
  EXPECT_THAT(found.directories, ElementsAre(at("/lib/firmware/tegra23x")));
  EXPECT_THAT(found.files, ElementsAre(at("/usr/lib/tegra/nvidia_icd.json")));
  EXPECT_THAT(found.links, ElementsAre(Link{"/etc/vulkan/nvidia_icd.json", "/usr/lib/tegra/nvidia_icd.json",
                                            "/usr/lib/tegra/nvidia_icd.json"}));
  ASSERT_THAT(found.problems, SizeIs(1));
  EXPECT_THAT(to_string(found.problems[0]), HasSubstr("l4t.csv:3:1: warning"));
}

TEST_F(TegraFiles, WithoutCsvFilesAreProblemsThatNameThem) {
  ASSERT_THAT(find().problems, SizeIs(1));
  EXPECT_THAT(to_string(find().problems[0]), HasSubstr("host-files-for-container.d: warning: is neither below"));
  for (const std::string root : {"/system", "/driver"}) {  // the driver's goes before the system's
    const std::string folder = tree_.path(root + kFolder);
    std::filesystem::create_directories(folder);
    const auto problems = find().problems;
    ASSERT_THAT(problems, SizeIs(3)) << root;
    EXPECT_THAT(to_string(problems[0]), HasSubstr(folder + "/devices.csv: warning: is not there"));
    EXPECT_EQ(problems[1].place.source, folder + "/drivers.csv");
    EXPECT_EQ(problems[2].place.source, folder + "/l4t.csv");
  }
  EXPECT_THAT(find().libraries, testing::IsEmpty());
}

}  // namespace
}  // namespace tranche::cdi
