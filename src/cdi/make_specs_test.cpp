#include "cdi/make_specs.h"

#include <gmock/gmock.h>

#include "cdi_grammar.h"

namespace tranche::cdi {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Strings = std::vector<std::string>;

Found at(const std::string& path) {
  return {path, path};
}

class CdiSpecs : public testing::Test {
 protected:
  CdiSpecs() {
    inventory_.driver_version = "580.1";
    for (std::uint32_t i = 0; i < 2; ++i) {
      gpu::Gpu gpu;
      gpu.uuid = "GPU-" + std::to_string(i);
      gpu.index = i;
      gpu.minor = 7 - i;
      inventory_.gpus.push_back(gpu);
      files_.gpu_nodes.insert(at("/dev/nvidia" + std::to_string(7 - i)));
    }
    files_.control_nodes = {at("/dev/nvidia-uvm"), at("/dev/nvidiactl")};
    files_.library_dir = "/usr/lib64";
    files_.libraries = {at("/usr/lib64/libcuda.so.580.1")};
    files_.links = {{"/usr/lib64/libcuda.so.1", "libcuda.so.580.1", "/usr/lib64/libcuda.so.580.1"}};
    config_.flags.nvidia_dev_root = "/";
  }

  gpu::MigDevice& add_mig(const std::string& profile) {
    auto& gpu = inventory_.gpus.front();
    gpu.mig_enabled = true;
    gpu::MigDevice mig;
    mig.uuid = "MIG-" + std::to_string(gpu.mig_devices.size());
    mig.slot = static_cast<std::uint32_t>(2 + gpu.mig_devices.size());
    mig.profile = profile;
    mig.gi_cap = 12;
    mig.ci_cap = 13;
    gpu.mig_devices.push_back(mig);
    files_.gpu_nodes.insert(at("/dev/nvidia-caps/nvidia-cap12"));
    files_.gpu_nodes.insert(at("/dev/nvidia-caps/nvidia-cap13"));
    return gpu.mig_devices.back();
  }

  MadeSpecs make() {
    auto made = make_specs(inventory_, config_, files_);
    for (const auto& spec : made.specs) EXPECT_EQ(test::fault_of(spec), "");
    return made;
  }
  Spec gpu_spec() {
    auto made = make();
    for (const auto& spec : made.specs)
      if (spec.cls == "gpu") return spec;
    ADD_FAILURE() << "no spec of class gpu";
    return {};
  }
  static Strings names(const Spec& spec) {
    Strings all;
    for (const auto& device : spec.devices) all.push_back(device.name);
    return all;
  }
  static Strings nodes(const Edits& edits) {
    Strings all;
    for (const auto& node : edits.device_nodes) all.push_back(node.path);
    return all;
  }
  static Strings mounts(const Edits& edits) {
    Strings all;
    for (const auto& mount : edits.mounts) all.push_back(mount.host_path + " at " + mount.container_path);
    return all;
  }
  static Strings hooks(const Edits& edits) {
    Strings all;
    for (const auto& hook : edits.hooks) {
      std::string line = "createContainer:";
      for (const auto& arg : hook.args) line += " " + arg;
      all.push_back(line);
    }
    return all;
  }
  static Strings classes(const MadeSpecs& made) {
    Strings all;
    for (const auto& spec : made.specs) all.push_back(spec.cls);
    return all;
  }

  gpu::Inventory inventory_;
  config::Config config_;
  DriverFiles files_;
};

// Promise: cdi: Specifications have NVIDIA's vendor and no device `all`.
TEST_F(CdiSpecs, AreOfNvidiasVendorAndHaveNoDeviceForAll) {
  EXPECT_EQ(gpu_spec().vendor, "k8s.device-plugin.nvidia.com");
  EXPECT_THAT(names(gpu_spec()), Not(Contains("all")));
}

// Promise: cdi: A GPU has its node by minor number and its DRM nodes.
TEST_F(CdiSpecs, GiveAGpuItsNodeByMinorNumberAndItsDrmNodes) {
  files_.drm["GPU-0"] = {{at("/dev/dri/card1"), at("/dev/dri/renderD129")},
                         {{"/dev/dri/by-path/pci-0000:3b:00.0-card", "../card1", "/dev/dri/card1"}}};
  const Spec spec = gpu_spec();
  EXPECT_THAT(nodes(spec.devices[0].edits), ElementsAre("/dev/nvidia7", "/dev/dri/card1", "/dev/dri/renderD129"));
  EXPECT_THAT(hooks(spec.devices[0].edits), ElementsAre("createContainer: nvidia-ctk hook create-symlinks --link "
                                                        "../card1::/dev/dri/by-path/pci-0000:3b:00.0-card"));
  EXPECT_THAT(nodes(spec.devices[1].edits), ElementsAre("/dev/nvidia6"));
  EXPECT_THAT(spec.devices[1].edits.hooks, IsEmpty());
}

// Promise: cdi: A MIG device has its parent and both capabilities.
TEST_F(CdiSpecs, GiveAMigDeviceItsParentAndItsTwoCapabilities) {
  add_mig("1g.10gb");
  files_.drm["GPU-0"] = {{at("/dev/dri/card1")}, {}};
  Spec spec = gpu_spec();
  EXPECT_THAT(names(spec), ElementsAre("MIG-0", "GPU-1"));
  EXPECT_THAT(nodes(spec.devices[0].edits),
              ElementsAre("/dev/nvidia7", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"));
  config_.flags.plugin.device_id_strategy = config::IdStrategy::kIndex;
  EXPECT_THAT(names(gpu_spec()), ElementsAre("0:2", "1"));
}

TEST_F(CdiSpecs, GiveDrmNodesToGraphicsMigProfilesOnly) {
  add_mig("1g.24gb+gfx");
  files_.drm["GPU-0"] = {{at("/dev/dri/card1")}, {}};
  EXPECT_THAT(nodes(gpu_spec().devices[0].edits), Contains("/dev/dri/card1"));
}

TEST_F(CdiSpecs, LeaveOutAMigDeviceThatCannotBeOpenedAndSayWhy) {
  add_mig("1g.10gb").ci_cap.reset();
  add_mig("1g.10gb").gi_cap = 99;
  const auto made = make();
  EXPECT_THAT(names(made.specs[0]), ElementsAre("GPU-1"));
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("MIG-0 is in no CDI spec"), HasSubstr("nvidia-cap99")));
}

TEST_F(CdiSpecs, LeaveOutAGpuWithoutNodeAndDisplayGpus) {
  files_.gpu_nodes.erase(at("/dev/nvidia7"));
  EXPECT_THAT(names(gpu_spec()), ElementsAre("GPU-1"));
  EXPECT_THAT(make().notes, ElementsAre("GPU GPU-0 is in no CDI spec: /dev/nvidia7 is not on the node"));
  inventory_.gpus[1].name = "NVIDIA DGX Display";
  EXPECT_THAT(make().specs, IsEmpty());
}

TEST_F(CdiSpecs, SayWhichControlNodeIsMissing) {
  files_.control_nodes = {at("/dev/nvidiactl")};
  EXPECT_THAT(make().notes, ElementsAre(HasSubstr("/dev/nvidia-uvm is not on the node: CUDA will not start")));
}

// Promise: cdi: The host's MPS folder stays out where Tranche shares by MPS.
TEST_F(CdiSpecs, KeepTheHostsOwnMpsOutWhereTrancheSharesByMps) {
  files_.mps_pipe = {at("/tmp/nvidia-mps")};
  EXPECT_EQ(mounts(gpu_spec().edits).back(), "/tmp/nvidia-mps at /tmp/nvidia-mps");
  config_.sharing.strategy = config::SharingStrategy::kMps;
  EXPECT_THAT(mounts(gpu_spec().edits), Not(Contains(HasSubstr("nvidia-mps"))));
}

TEST_F(CdiSpecs, LeaveOutHooksThatAreTurnedOff) {
  config_.run.cdi_disable_hooks = {"enable-cuda-compat", "create-symlinks"};
  EXPECT_THAT(hooks(gpu_spec().edits), SizeIs(3));
  EXPECT_THAT(hooks(gpu_spec().edits), Not(Contains(HasSubstr("cuda-compat"))));
  config_.run.cdi_disable_hooks = {"all"};
  EXPECT_THAT(gpu_spec().edits.hooks, IsEmpty());
  EXPECT_THAT(mounts(gpu_spec().edits), SizeIs(1));
}

// Promise: cdi: Without the hook program links become mounts.
TEST_F(CdiSpecs, WithoutTheHookProgramHaveLinksAsMountsAndSaySo) {
  files_.hook_program_missing = true;
  files_.drm["GPU-0"] = {{at("/dev/dri/card1")}, {{"/dev/dri/by-path/x", "../card1", "/dev/dri/card1"}}};
  const auto made = make();
  const Edits& edits = made.specs[0].edits;
  EXPECT_THAT(edits.hooks, IsEmpty());
  EXPECT_THAT(made.specs[0].devices[0].edits.hooks, IsEmpty());
  EXPECT_THAT(mounts(edits), ElementsAre("/usr/lib64/libcuda.so.580.1 at /usr/lib64/libcuda.so.580.1",
                                         "/usr/lib64/libcuda.so.580.1 at /usr/lib64/libcuda.so",
                                         "/usr/lib64/libcuda.so.580.1 at /usr/lib64/libcuda.so.1"));
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("hook program /usr/bin/nvidia-ctk is not on the node")));
}

TEST_F(CdiSpecs, WriteHooksBlindlyWhereTheProgramCannotBeSeen) {
  files_.hook_program_missing = false;
  EXPECT_THAT(gpu_spec().edits.hooks, SizeIs(5));
}

TEST_F(CdiSpecs, FollowTheFeatureFlags) {
  files_.explicit_libraries = {at("/usr/lib64/libEGL.so.1.1.0")};
  files_.sockets = {at("/run/nvidia-persistenced/socket")};
  files_.mps_pipe = {at("/tmp/nvidia-mps")};
  EXPECT_THAT(mounts(gpu_spec().edits), Not(Contains(HasSubstr("libEGL"))));
  config_.run.cdi_feature_flags = {"enable-explicit-driver-libraries", "disable-ipc-discoverer"};
  EXPECT_THAT(mounts(gpu_spec().edits), Contains(HasSubstr("libEGL")));
  EXPECT_THAT(mounts(gpu_spec().edits), Not(Contains(HasSubstr("socket"))));
  EXPECT_THAT(mounts(gpu_spec().edits), Not(Contains(HasSubstr("nvidia-mps"))));
}

struct RootCase {
  const char* name;
  std::string driver_root, dev_root;
  bool nodes_in_driver_root;
  std::string library, node;  // on the host; "" = as in the container
};
class CdiRoots : public CdiSpecs, public testing::WithParamInterface<RootCase> {};

TEST_P(CdiRoots, PutHostPathsBelowTheRootsOfTheHost) {
  const RootCase& row = GetParam();
  config_.flags.nvidia_driver_root = row.driver_root;
  config_.flags.nvidia_dev_root = row.dev_root;
  files_.nodes_in_driver_root = row.nodes_in_driver_root;
  const Spec spec = gpu_spec();
  EXPECT_EQ(spec.edits.mounts[0].host_path, row.library);
  EXPECT_EQ(spec.edits.mounts[0].container_path, "/usr/lib64/libcuda.so.580.1");
  EXPECT_EQ(spec.devices[0].edits.device_nodes[0].path, "/dev/nvidia7");
  EXPECT_EQ(spec.devices[0].edits.device_nodes[0].host_path, row.node);
  EXPECT_EQ(minimum_version(spec), row.node.empty() ? "0.3.0" : "0.5.0");
  EXPECT_EQ(spec.edits.env[1], "NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64");
}

const std::string kLibrary = "/usr/lib64/libcuda.so.580.1";
INSTANTIATE_TEST_SUITE_P(
    Roots, CdiRoots,
    testing::Values(
        RootCase{"Host", "/", "/", true, kLibrary, ""}, RootCase{"Empty", "", "", false, kLibrary, ""},
        RootCase{"NodesInDriverRoot", "/run/driver/", "/", true, "/run/driver" + kLibrary, "/run/driver/dev/nvidia7"},
        RootCase{"NodesOfTheHost", "/run/driver", "/", false, "/run/driver" + kLibrary, ""},
        RootCase{"DevRootUnset", "/run/driver", "", false, "/run/driver" + kLibrary, "/run/driver/dev/nvidia7"},
        RootCase{"DevRootElsewhere", "/run/driver", "/x/", false, "/run/driver" + kLibrary, "/x/dev/nvidia7"},
        RootCase{"DevRootWithDev", "/run/driver", "/x/dev", false, "/run/driver" + kLibrary, "/x/dev/nvidia7"}),
    [](const auto& row) { return row.param.name; });

TEST_F(CdiSpecs, UseWhereALinkLeadsInsideTheRootAsHostPath) {
  config_.flags.nvidia_driver_root = "/run/driver";
  files_.files = {{"/lib/firmware/nvidia/580.1/gsp_ga10x.bin", "/usr/lib/firmware/nvidia/580.1/gsp_ga10x.bin"}};
  EXPECT_THAT(mounts(gpu_spec().edits), Contains("/run/driver/usr/lib/firmware/nvidia/580.1/gsp_ga10x.bin at "
                                                 "/lib/firmware/nvidia/580.1/gsp_ga10x.bin"));
}

TEST_F(CdiSpecs, HaveNoClassThatWouldBeEmptyAndSayWhy) {
  files_.gds_files = {at("/run/udev")};  // on every host, and not sufficient
  config_.imex.channel = true;
  config_.flags.gdrcopy_enabled = config_.flags.gds_enabled = config_.flags.mofed_enabled = true;
  const auto made = make();
  EXPECT_THAT(classes(made), ElementsAre("gpu"));
  EXPECT_THAT(made.notes,
              ElementsAre(HasSubstr("IMEX channel 0"), HasSubstr("gdrcopy"), HasSubstr("gds"), HasSubstr("mofed")));
}

TEST_F(CdiSpecs, OfAWslSystemHaveOneDevice) {
  inventory_.platform = gpu::Platform::kWsl;
  files_ = {};
  EXPECT_THAT(make().notes, ElementsAre(HasSubstr("/dev/dxg is not there")));
  files_.gpu_nodes = {at("/dev/dxg")};
  files_.libraries = {at("/usr/lib/wsl/lib/libcuda.so.1")};
  for (const auto strategy : {config::IdStrategy::kUuid, config::IdStrategy::kIndex}) {
    config_.flags.plugin.device_id_strategy = strategy;
    EXPECT_THAT(names(gpu_spec()), ElementsAre("all"));
  }
  EXPECT_THAT(nodes(gpu_spec().devices[0].edits), ElementsAre("/dev/dxg"));
  EXPECT_THAT(hooks(gpu_spec().edits), ElementsAre(HasSubstr("update-ldcache --folder /usr/lib/wsl/lib")));
}

TEST_F(CdiSpecs, OfATegraSystemHaveOneDeviceWithAllThatTheCsvFilesName) {
  inventory_ = {};
  inventory_.platform = gpu::Platform::kTegra;
  files_ = {};
  EXPECT_THAT(make().notes, ElementsAre(HasSubstr("CSV files name nothing")));
  files_.gpu_nodes = {at("/dev/nvhost-ctrl")};
  EXPECT_THAT(names(gpu_spec()), ElementsAre("tegra"));
  config_.flags.plugin.device_id_strategy = config::IdStrategy::kIndex;
  EXPECT_THAT(names(gpu_spec()), ElementsAre("0"));
}

}  // namespace
}  // namespace tranche::cdi
