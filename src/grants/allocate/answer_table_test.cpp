// Every combination of what decides a response of Allocate, against the rules of NVIDIA's v0.20 and the differences
// that docs/compatibility/kubelet-api.md lists: written down a second time here, from nothing else.
#include <gmock/gmock.h>

#include <optional>

#include "grants/allocate/grant.h"

namespace tranche::grants {
namespace answer_table_test {

using config::IdStrategy;
using config::ListStrategy;
using config::SharingStrategy;
using Envs = std::map<std::string, std::string>;

enum class Device { kGpu, kMig, kWsl, kTegra };

struct Combination {
  Device device = Device::kGpu;
  SharingStrategy sharing = SharingStrategy::kNone;
  unsigned lists = 0;  // bits: envvar, volume-mounts, cdi-annotations, cdi-cri
  bool by_index = false;
  bool specs = false;
  unsigned extras = 0;  // bits: gdrcopy, gds, mofed
  bool imex = false;
  bool two_devices = false;
  bool frameworks = true;

  bool on(ListStrategy s) const { return (lists >> static_cast<unsigned>(s) & 1U) != 0; }
  bool extra(unsigned bit) const { return (extras >> bit & 1U) != 0; }
};

constexpr const char* kGpuUuid[2] = {"GPU-aaaaaaaa-0000-4000-8000-00000000000a",
                                     "GPU-bbbbbbbb-0000-4000-8000-00000000000b"};
constexpr const char* kMigUuid[2] = {"MIG-aaaaaaaa-0000-4000-8000-00000000000a",
                                     "MIG-bbbbbbbb-0000-4000-8000-00000000000b"};

std::string uuid_of(const Combination& c, int i) {
  if (c.device == Device::kWsl) return "all";
  if (c.device == Device::kTegra) return "tegra";
  return c.device == Device::kMig ? kMigUuid[i] : kGpuUuid[i];
}

std::string index_of(const Combination& c, int i) {
  if (c.device == Device::kWsl) return "all";
  if (c.device == Device::kTegra) return "0";
  return c.device == Device::kMig ? "0:" + std::to_string(i) : std::to_string(i);
}

// Two MIG devices are on one GPU, so its node comes twice.
std::vector<std::string> paths_of(const Combination& c, int i) {
  if (c.device == Device::kWsl) return {"/dev/dxg"};
  if (c.device == Device::kTegra) return {};
  if (c.device == Device::kGpu) return {"/dev/nvidia" + std::to_string(i)};
  return {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap" + std::to_string(10 + i), "/dev/nvidia-caps/nvidia-cap20"};
}

int devices_of(const Combination& c) {
  return c.two_devices ? 2 : 1;
}

plan::PlannedResource resource_of(const Combination& c) {
  plan::PlannedResource resource;
  resource.name = "nvidia.com/gpu";
  resource.sharing = c.sharing;
  for (int i = 0; i < devices_of(c); ++i) {
    plan::PlannedDevice device;
    device.uuid = uuid_of(c, i);
    device.gpu_uuid = kGpuUuid[c.device == Device::kMig ? 0 : i];
    device.index = index_of(c, i);
    device.is_mig = c.device == Device::kMig;
    device.replicated = c.sharing != SharingStrategy::kNone;
    device.slots = device.replicated ? 4 : 1;
    device.paths = paths_of(c, i);
    if (c.sharing == SharingStrategy::kMps) device.pool = "gpu-a";
    device.memory = mib(80000);
    device.sm_count = 132;
    device.compute_capability = {9, 0};
    resource.devices.push_back(device);
  }
  return resource;
}

// Two slots of every device, so that names come twice where a device does.
std::vector<std::string> ids_of(const Combination& c) {
  std::vector<std::string> ids;
  for (int i = devices_of(c) - 1; i >= 0; --i) {
    if (c.sharing == SharingStrategy::kNone) {
      ids.push_back(uuid_of(c, i));
    } else {
      ids.push_back(uuid_of(c, i) + "::3");
      ids.push_back(uuid_of(c, i) + "::1");
    }
  }
  return ids;
}

Settings settings_of(const Combination& c) {
  Settings settings;
  settings.flags.plugin.device_list_strategy.clear();
  for (const auto s :
       {ListStrategy::kCdiCri, ListStrategy::kVolumeMounts, ListStrategy::kEnvvar, ListStrategy::kCdiAnnotations})
    if (c.on(s)) settings.flags.plugin.device_list_strategy.push_back(s);
  settings.flags.plugin.device_id_strategy = c.by_index ? IdStrategy::kIndex : IdStrategy::kUuid;
  settings.flags.plugin.pass_device_specs = c.specs;
  settings.flags.plugin.cdi_annotation_prefix = "example.com/";
  settings.flags.nvidia_driver_root = "/run/driver";
  settings.flags.nvidia_dev_root = c.by_index ? "/" : "";  // else the driver root
  settings.flags.gdrcopy_enabled = c.extra(0);
  settings.flags.gds_enabled = c.extra(1);
  settings.flags.mofed_enabled = c.extra(2);
  settings.framework_environment = c.frameworks;
  settings.imex_channel = c.imex;
  settings.control_nodes = {"/dev/nvidiactl", "/dev/nvidia-uvm"};
  settings.cdi_classes = {"gpu", "imex-channel", "gdrcopy", "gds"};  // there is no InfiniBand here
  return settings;
}

// The rules, one by one.
struct Expected {
  Envs envs;
  std::vector<std::pair<std::string, std::string>> mounts;  // container path, host path
  std::vector<std::pair<std::string, std::string>> nodes;
  std::string annotation;
  std::vector<std::string> cdi;
};

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& part : parts) out += (out.empty() ? "" : ",") + part;
  return out;
}

Expected expected(const Combination& c) {
  Expected e;
  std::vector<std::string> names;
  for (int i = 0; i < devices_of(c); ++i) names.push_back(c.by_index ? index_of(c, i) : uuid_of(c, i));

  const std::string vendor = "k8s.device-plugin.nvidia.com/";
  std::vector<std::string> cdi;
  for (const auto& name : names) cdi.push_back(vendor + "gpu=" + name);
  if (c.imex) cdi.push_back(vendor + "imex-channel=0");
  if (c.extra(0)) cdi.push_back(vendor + "gdrcopy=all");
  if (c.extra(1)) cdi.push_back(vendor + "gds=all");
  if (c.on(ListStrategy::kCdiAnnotations)) e.annotation = joined(cdi);
  if (c.on(ListStrategy::kCdiCri)) e.cdi = cdi;

  if (c.sharing == SharingStrategy::kMps) {
    e.envs["CUDA_MPS_PIPE_DIRECTORY"] = "/run/tranche/mps";
    e.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = std::string(kGpuUuid[0]) + "=40000M";
    e.envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "50";
    if (c.frameworks) {
      e.envs["TRANCHE_MEMORY_MIB"] = "40000";
      e.envs["TRANCHE_MEMORY_FRACTION"] = "0.5000";
      e.envs["TRANCHE_SMS"] = "66";
      e.envs["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.4442";  // 0.9 × (40000 - 512) / 80000
      e.envs["TF_FORCE_GPU_ALLOW_GROWTH"] = "true";
    }
    e.mounts.emplace_back("/run/tranche/mps", "/run/nvidia/mps/pools/gpu-a/endpoints/" + grant_id(ids_of(c)));
  }
  if (c.extra(0)) e.envs["NVIDIA_GDRCOPY"] = "enabled";
  if (c.extra(1)) e.envs["NVIDIA_GDS"] = "enabled";
  if (c.extra(2)) e.envs["NVIDIA_MOFED"] = "enabled";
  if (!c.on(ListStrategy::kEnvvar) && !c.on(ListStrategy::kVolumeMounts)) return e;

  if (c.on(ListStrategy::kEnvvar)) {
    e.envs["NVIDIA_VISIBLE_DEVICES"] = joined(names);
    if (c.imex) e.envs["NVIDIA_IMEX_CHANNELS"] = "0";
  }
  if (c.on(ListStrategy::kVolumeMounts)) {
    e.envs["NVIDIA_VISIBLE_DEVICES"] = "/var/run/nvidia-container-devices";
    for (const auto& name : names) e.mounts.emplace_back("/var/run/nvidia-container-devices/" + name, "/dev/null");
    if (c.imex) e.mounts.emplace_back("/var/run/nvidia-container-devices/imex/0", "/dev/null");
  }
  if (!c.specs || c.device == Device::kTegra) return e;
  const std::string root = c.by_index ? "" : "/run/driver";
  std::vector<std::string> nodes;
  switch (c.device) {
    case Device::kWsl:
      nodes = {"/dev/dxg"};
      break;
    case Device::kMig:
      nodes = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap10",
               "/dev/nvidia-caps/nvidia-cap20"};
      if (c.two_devices) nodes.emplace_back("/dev/nvidia-caps/nvidia-cap11");
      break;
    default:
      nodes = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"};
      if (c.two_devices) nodes.emplace_back("/dev/nvidia1");
  }
  if (c.imex && c.device != Device::kWsl) nodes.emplace_back("/dev/nvidia-caps-imex-channels/channel0");
  for (const auto& node : nodes) e.nodes.emplace_back(node, root + node);
  return e;
}

std::string name_of(const Combination& c) {
  std::string lists;
  for (const auto s :
       {ListStrategy::kEnvvar, ListStrategy::kVolumeMounts, ListStrategy::kCdiAnnotations, ListStrategy::kCdiCri})
    if (c.on(s)) lists += " " + std::string(config::to_string(s));
  static constexpr const char* kDevices[] = {"GPU", "MIG", "WSL", "Tegra"};
  return std::string(kDevices[static_cast<int>(c.device)]) + (c.two_devices ? " x 2, " : ", ") +
         std::string(config::to_string(c.sharing)) + ", lists:" + lists + (c.by_index ? ", by index" : ", by uuid") +
         (c.specs ? ", device specs" : "") + ", extras " + std::to_string(c.extras) + (c.imex ? ", IMEX" : "") +
         (c.frameworks ? ", frameworks" : "");
}

bool exists(const Combination& c) {
  const bool one_of_a_kind = c.device == Device::kWsl || c.device == Device::kTegra;
  if (c.sharing == SharingStrategy::kMps && (c.device != Device::kGpu || c.two_devices)) return false;
  return !(one_of_a_kind && c.two_devices);
}

template <class Visit>
void for_each_combination(const Visit& visit) {
  for (const auto device : {Device::kGpu, Device::kMig, Device::kWsl, Device::kTegra})
    for (const auto sharing : {SharingStrategy::kNone, SharingStrategy::kTimeSlicing, SharingStrategy::kMps})
      for (unsigned bits = 0; bits < 1U << 12; ++bits) {
        const auto bit = [&](unsigned n) { return (bits >> n & 1U) != 0; };
        const Combination c{device, sharing, bits & 15U, bit(4), bit(5), bits >> 6 & 7U, bit(9), bit(10), bit(11)};
        if (exists(c)) visit(c);
      }
}

// Promise: kubelet/allocate: Every combination of settings gives the documented answer.
// Promise: kubelet/allocate: Time-sliced slots may span GPUs.
// Promise: kubelet/allocate: The strategy `index` names devices in the driver's order.
// Promise: kubelet/allocate: With `volume-mounts` and `envvar` the value of `volume-mounts` wins.
// Promise: kubelet/allocate: A device node is listed once.
TEST(AnswerTable, EveryCombinationAnswersAsTheTableSays) {
  int combinations = 0;
  for_each_combination([&](const Combination& c) {
    ++combinations;
    SCOPED_TRACE(name_of(c));
    const auto grant = allocate(resource_of(c), {}, ids_of(c), settings_of(c));
    ASSERT_TRUE(grant) << to_string(grant.error());
    const Expected e = expected(c);
    EXPECT_EQ(grant->envs, e.envs);
    ASSERT_EQ(grant->mounts.size(), e.mounts.size());
    for (std::size_t i = 0; i < e.mounts.size(); ++i) {
      EXPECT_EQ(std::pair(grant->mounts[i].container_path, grant->mounts[i].host_path), e.mounts[i]);
      EXPECT_EQ(grant->mounts[i].read_only, e.mounts[i].first == kEndpointInContainer);
    }
    std::vector<std::pair<std::string, std::string>> nodes;
    for (const auto& node : grant->device_nodes) nodes.emplace_back(node.container_path, node.host_path);
    EXPECT_EQ(nodes, e.nodes);
    EXPECT_EQ(grant->cdi_devices, e.cdi);
    if (e.annotation.empty()) {
      EXPECT_TRUE(grant->annotations.empty());
    } else {
      EXPECT_EQ(grant->annotations, (Envs{{"example.com/nvidia-device-plugin_" + grant->id, e.annotation}}));
    }
  });
  EXPECT_EQ(combinations, 26624);
}

// What is asked of one container and what comes of it; ids are "<device>::<n>" where the resource is shared.
struct Request {
  const char* what;
  SharingStrategy sharing;
  bool one_slot_per_request;
  std::vector<std::string> ids;
  std::optional<Kind> refused;
};

// Promise: kubelet/allocate: Requests are validated as NVIDIA's plugin validates them.
// Promise: kubelet/allocate: More than one slot is refused where the configuration allows one.
TEST(AnswerTable, RequestsAreValidatedAsNvidiaDoes) {
  const std::string a = kGpuUuid[0];
  const std::string b = kGpuUuid[1];
  const std::vector<Request> requests = {
      {"one GPU", SharingStrategy::kNone, false, {a}, {}},
      {"two GPUs", SharingStrategy::kNone, false, {a, b}, {}},
      {"two GPUs, where one slot would be allowed if they were shared", SharingStrategy::kNone, true, {a, b}, {}},
      {"a GPU that is not there", SharingStrategy::kNone, false, {a, "GPU-cccccccc"}, Kind::kNotFound},
      {"one slot", SharingStrategy::kTimeSlicing, true, {a + "::0"}, {}},
      {"two slots of one GPU", SharingStrategy::kTimeSlicing, false, {a + "::0", a + "::1"}, {}},
      {"two slots of two GPUs", SharingStrategy::kTimeSlicing, false, {a + "::0", b + "::1"}, {}},
      {"two slots, one allowed", SharingStrategy::kTimeSlicing, true, {a + "::0", a + "::1"}, Kind::kInvalid},
      {"two slots of two GPUs, one allowed",
       SharingStrategy::kTimeSlicing,
       true,
       {a + "::0", b + "::0"},
       Kind::kInvalid},
      {"one slot under MPS", SharingStrategy::kMps, true, {b + "::3"}, {}},
      {"two slots under MPS, one allowed", SharingStrategy::kMps, true, {a + "::0", a + "::1"}, Kind::kInvalid},
      {"two slots under MPS", SharingStrategy::kMps, false, {a + "::0", a + "::1"}, {}},
      {"a slot that is not there", SharingStrategy::kTimeSlicing, false, {a + "::4"}, Kind::kNotFound},
      {"an unknown id comes before the number asked for",
       SharingStrategy::kTimeSlicing,
       true,
       {a + "::0", a + "::9"},
       Kind::kNotFound},
      {"a whole GPU where slots are advertised", SharingStrategy::kTimeSlicing, false, {a}, Kind::kNotFound},
      {"a slot where whole GPUs are advertised", SharingStrategy::kNone, false, {a + "::0"}, Kind::kNotFound},
  };
  for (const auto& request : requests) {
    SCOPED_TRACE(request.what);
    auto resource = resource_of({.sharing = request.sharing, .two_devices = true});
    resource.one_slot_per_request = request.one_slot_per_request;
    const auto grant = allocate(resource, {}, request.ids, {});
    if (!request.refused) {
      EXPECT_TRUE(grant) << to_string(grant.error());
      continue;
    }
    ASSERT_FALSE(grant);
    EXPECT_EQ(grant.error().kind, *request.refused);
    EXPECT_THAT(grant.error().what, testing::HasSubstr("nvidia.com/gpu"));
    const std::string named = request.refused == Kind::kNotFound ? request.ids.back() : "asks for 2 of nvidia.com/gpu";
    EXPECT_THAT(grant.error().what, testing::HasSubstr(named));
  }
}

TEST(AnswerTable, WithTheDefaultsTheAnswerIsOneVariable) {
  const auto whole = allocate(resource_of({}), {}, ids_of({}), {});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->envs, (Envs{{"NVIDIA_VISIBLE_DEVICES", kGpuUuid[0]}}));
  EXPECT_TRUE(whole->mounts.empty() && whole->device_nodes.empty() && whole->cdi_devices.empty() &&
              whole->annotations.empty());
}

// Devices, extras and specs that were written → the CDI names of the answer.
struct CdiCase {
  const char* what;
  std::vector<std::string> ids;
  unsigned extras;
  bool channel;
  std::set<std::string> classes;
  std::string names;  // without the vendor
};

// Promise: kubelet/allocate: CDI names are those of the classes that have a specification.
TEST(AnswerTable, CdiNamesAreThoseOfClassesThatHaveASpec) {
  const std::string a = kGpuUuid[0];
  const std::string b = kGpuUuid[1];
  const std::set<std::string> all = {"gpu", "imex-channel", "gdrcopy", "gds", "mofed"};
  const std::vector<CdiCase> cases = {
      {"one GPU", {a}, 0, false, all, "gpu=" + a},
      {"two GPUs", {b, a}, 0, false, all, "gpu=" + a + ",gpu=" + b},
      {"GDS", {a}, 2, false, all, "gpu=" + a + ",gds=all"},
      {"MOFED", {a}, 4, false, all, "gpu=" + a + ",mofed=all"},
      {"GDRCopy", {a}, 1, false, all, "gpu=" + a + ",gdrcopy=all"},
      {"everything", {a}, 7, true, all, "gpu=" + a + ",imex-channel=0,gdrcopy=all,gds=all,mofed=all"},
      {"MOFED without a spec", {a}, 6, false, {"gpu", "gds"}, "gpu=" + a + ",gds=all"},
      {"a channel without a spec", {a}, 0, true, {"gpu"}, "gpu=" + a},
      {"nothing known yet: the runtime refuses, and kubelet tries again",
       {a},
       3,
       true,
       {},
       "gpu=" + a + ",imex-channel=0,gdrcopy=all,gds=all"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.what);
    Settings settings;
    settings.flags.plugin.device_list_strategy = {ListStrategy::kCdiAnnotations, ListStrategy::kCdiCri};
    settings.flags.gdrcopy_enabled = (one.extras & 1U) != 0;
    settings.flags.gds_enabled = (one.extras & 2U) != 0;
    settings.flags.mofed_enabled = (one.extras & 4U) != 0;
    settings.imex_channel = one.channel;
    settings.cdi_classes = one.classes;
    const auto grant = allocate(resource_of({.two_devices = true}), {}, one.ids, settings);
    ASSERT_TRUE(grant);
    std::string names;
    for (const auto& name : grant->cdi_devices) names += (names.empty() ? "" : ",") + name.substr(name.find('/') + 1);
    EXPECT_EQ(names, one.names);
    EXPECT_EQ(grant->annotations.at("cdi.k8s.io/nvidia-device-plugin_" + grant->id), joined(grant->cdi_devices));
  }
}

// Promise: kubelet/allocate: Slots on a lost GPU are refused and other GPUs are served.
TEST(AnswerTable, ALostGpuIsRefusedAndTheOthersAreNot) {
  const auto resource = resource_of({.two_devices = true});
  plan::Faults faults;
  faults.devices[kGpuUuid[0]] = {gpu::Cause::kLost, "the driver does not list this GPU any more"};
  const auto lost = allocate(resource, faults, std::vector<std::string>{kGpuUuid[0]}, {});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, Kind::kUnavailable);
  EXPECT_TRUE(allocate(resource, faults, std::vector<std::string>{kGpuUuid[1]}, {}));
}

}  // namespace answer_table_test
}  // namespace tranche::grants
