#include "config/keys.h"

#include <algorithm>
#include <tuple>

#include "config/guard.h"
#include "config/words.h"

namespace tranche::config {
namespace {

using enum KeyType;
using enum Origin;

constexpr std::string_view kAll = "all";
constexpr std::string_view kBoth = "node, mps";
constexpr std::string_view kNode = "node";
constexpr std::string_view kMps = "mps";
constexpr std::string_view kLabels = "labels";
constexpr std::string_view kNobody = "none";

template <class Enum, std::size_t N>
std::vector<std::string_view> words(const std::array<Enum, N>& values) {
  std::vector<std::string_view> out;
  for (const Enum value : values) out.push_back(to_string(value));
  return out;
}

Key section(std::string_view path, std::string_view meaning, KeyCase below, Origin origin = kNvidia) {
  return {.path = path, .type = kSection, .origin = origin, .sample = "{}", .meaning = meaning, .below = below};
}

Key entries(std::string_view path, std::string_view sample, std::string_view meaning, Origin origin = kNvidia) {
  return {.path = path, .type = kSections, .origin = origin, .sample = sample, .meaning = meaning};
}

Key key(std::string_view path, KeyType type, Origin origin, std::string_view usual, std::string_view sample,
        std::string_view readers, std::string_view meaning, std::string_view see = {}) {
  return {path, type, origin, usual, sample, readers, meaning, see};
}

Key of_words(Key row, std::vector<std::string_view> words) {
  row.words = std::move(words);
  return row;
}

Key counted(Key row, std::uint32_t least, std::uint32_t most) {
  row.least = least;
  row.most = most;
  return row;
}

using Rows = std::vector<Key>;

void add_flags(Rows& rows) {
  rows.insert(
      rows.end(),
      {section("flags", "Settings that flags and variables can also set", KeyCase::kAny),
       of_words(key("flags.migStrategy", kWord, kNvidia, "none", "mixed", kAll, "how MIG devices are advertised"),
                words(kMigStrategies)),
       key("flags.failOnInitError", kSwitch, kNvidia, "true", "false", "node, labels",
           "treat a missing driver as an error: the labelling programs exit, tranche node waits but is not ready"),
       key("flags.mpsRoot", kPath, kNvidia, "/run/nvidia/mps", "/run/nvidia/mps", kBoth,
           "host directory for MPS state; the default applies if a resource is shared by MPS", "paths.md"),
       key("flags.nvidiaDriverRoot", kPath, kNvidia, "/", "/run/nvidia/driver", kBoth,
           "root of the driver installation on the host"),
       key("flags.nvidiaDevRoot", kPath, kNvidia, "", "/", kNode,
           "root of the device nodes on the host; default: the driver root"),
       key("flags.gdrcopyEnabled", kSwitch, kNvidia, "false", "true", kNode, "give GDRCopy devices to containers"),
       key("flags.gdsEnabled", kSwitch, kNvidia, "false", "true", kNode,
           "give GPUDirect Storage devices to containers"),
       key("flags.mofedEnabled", kSwitch, kNvidia, "false", "true", kNode, "give InfiniBand devices to containers"),
       key("flags.useNodeFeatureAPI", kSwitch, kNvidia, "true", "false", kLabels,
           "gpu-feature-discovery writes a NodeFeature object instead of a file", "labels.md"),
       of_words(key("flags.deviceDiscoveryStrategy", kWord, kNvidia, "auto", "nvml", "node, labels",
                    "how devices are found; vfio only labels the node and serves no devices"),
                words(kDiscoveryStrategies)),
       key("flags.namedResources", kText, kUnused, "", "[]", kNobody, "key of a fork; use names in an entry instead"),
       key("flags.mpsMemoryLimiting", kText, kUnused, "", "true", kNobody,
           "key of a fork; memory is limited unless memory is open"),
       section("flags.plugin", "Settings of the device plugin", KeyCase::kAny),
       key("flags.plugin.passDeviceSpecs", kSwitch, kNvidia, "false", "true", kNode,
           "also return device nodes to kubelet"),
       of_words(key("flags.plugin.deviceListStrategy", kWords, kNvidia, "[envvar]", "[envvar, cdi-cri]", kNode,
                    "how devices are passed to a container; a single string is not split at commas", "cdi.md"),
                words(kListStrategies)),
       of_words(key("flags.plugin.deviceIDStrategy", kWord, kNvidia, "uuid", "index", kNode,
                    "how devices are identified to containers"),
                words(kIdStrategies)),
       key("flags.plugin.cdiAnnotationPrefix", kText, kNvidia, "cdi.k8s.io/", "cdi.k8s.io/", kNode,
           "prefix of CDI annotations", "cdi.md"),
       key("flags.plugin.nvidiaCTKPath", kPath, kNvidia, "/usr/bin/nvidia-ctk", "/usr/bin/nvidia-ctk", kNode,
           "hook program written into CDI specs", "cdi.md"),
       key("flags.plugin.containerDriverRoot", kPath, kNvidia, "/driver-root", "/driver-root", kAll,
           "where the driver root is mounted in Tranche's container"),
       of_words(key("flags.plugin.sharedDevicesAllocationPolicy", kWord, kNvidia, "distributed", "packed", kNode,
                    "which shared device to prefer: the least used (distributed) or the most used (packed)"),
                words(kAllocationPolicies)),
       section("flags.gfd", "Settings of GPU feature discovery", KeyCase::kAny),
       key("flags.gfd.oneshot", kSwitch, kNvidia, "false", "true", kLabels, "label once and exit"),
       key("flags.gfd.noTimestamp", kSwitch, kNvidia, "false", "true", kLabels, "omit the timestamp label"),
       key("flags.gfd.sleepInterval", kDuration, kNvidia, "60s", "1m30s", kLabels,
           "interval between rounds of labelling, or infinite; a number without a unit means nanoseconds"),
       key("flags.gfd.outputFile", kPath, kNvidia, "/etc/kubernetes/node-feature-discovery/features.d/gfd", "/tmp/gfd",
           kLabels, "file for the labels; empty means standard output"),
       key("flags.gfd.machineTypeFile", kPath, kNvidia, "/sys/class/dmi/id/product_name",
           "/sys/class/dmi/id/product_name", kLabels, "file that contains the machine model"),
       section("resources", "Checked and not used, as in NVIDIA's programs", KeyCase::kAny, kUnused)});
  for (const auto& [path, pattern, name] :
       {std::tuple{"resources.gpus", "resources.gpus[].pattern", "resources.gpus[].name"},
        std::tuple{"resources.mig", "resources.mig[].pattern", "resources.mig[].name"}}) {
    rows.push_back(entries(path, R"([{pattern: "*", name: gpu}])", "rules for naming resources", kUnused));
    rows.push_back(key(pattern, kText, kUnused, "", R"("*")", kNobody, "pattern for a model or profile"));
    rows.push_back(key(name, kText, kUnused, "", "gpu", kNobody, "name of the resource"));
  }
}

// Limits of a slot, in sharing.mps and in one of its entries.
struct Worth {
  std::string_view threads, threads_factor, threads_sms, memory, memory_factor, usual, threads_meaning, memory_meaning;
};

void add_worth(Rows& rows, const Worth& at) {
  constexpr std::string_view kShares = "../guide/share-sizes.md";
  rows.insert(rows.end(),
              {of_words(key(at.threads, kThreads, kOurs, at.usual, "{factor: 2}", kBoth, at.threads_meaning, kShares),
                        {"equal", "open", "tenant"}),
               key(at.threads_factor, kFactor, kOurs, "", "2", kBoth, "multiple of an equal share"),
               counted(key(at.threads_sms, kCount, kOurs, "", "16", kBoth, "SMs per slot"), 1, 1024),
               of_words(key(at.memory, kMemory, kOurs, at.usual, "4Gi", kBoth, at.memory_meaning, kShares),
                        {"equal", "open", "tenant"}),
               key(at.memory_factor, kFactor, kOurs, "", "1.5", kBoth, "multiple of an equal share")});
}

// Keys common to sharing.timeSlicing and sharing.mps.
struct Section {
  std::string_view section, meaning, rename_by_default, fail, fail_usual, resources, name, replicas, rename, devices;
};

void add_section(Rows& rows, const Section& s, std::uint32_t least_replicas) {
  rows.insert(
      rows.end(),
      {section(s.section, s.meaning, KeyCase::kExact),
       key(s.rename_by_default, kSwitch, kNvidia, "false", "true", kAll, "advertise NAME.shared instead of NAME"),
       key(s.fail, kSwitch, kNvidia, s.fail_usual, "false", kBoth, "a container may hold only one slot"),
       entries(s.resources, "[{name: nvidia.com/gpu, replicas: 4}]", "resources to share; required"),
       key(s.name, kResource, kNvidia, "", "nvidia.com/gpu", kAll,
           "resource to share, required; the prefix nvidia.com/ is added if it is missing"),
       counted(key(s.replicas, kCount, kNvidia, "", "4", kAll,
                   least_replicas == 1
                       ? "slots per device, required unless slotMemory is set; 1 is the whole GPU through MPS; more "
                         "slots than the MPS server's client capacity are units, of which a container may hold several"
                       : "slots per device; required",
                   "../guide/share-sizes.md"),
               least_replicas, kMostSlots),
       key(s.rename, kResource, kNvidia, "", "nvidia.com/gpu.shared", kAll,
           "advertised name of the slots; used only with sharing.perDevice"),
       key(s.devices, kDevices, kNvidia, "all", "all", kAll, "devices of this entry; used only with sharing.perDevice",
           "../guide/configure.md")});
}

void add_mps_entries(Rows& rows) {
  rows.insert(
      rows.end(),
      {key("sharing.mps.resources[].slotMemory", kSize, kOurs, "", "4Gi", kAll,
           "instead of replicas: as many slots of this size as fit in the memory of each GPU, minus the reserve",
           "../guide/share-sizes.md"),
       key("sharing.mps.resources[].names", kNames, kOurs, "", R"("gpu%d")", kAll,
           "one resource per GPU index (%d), slot size in GiB (%g) or model (%m)", "../guide/share-sizes.md")});
  add_worth(rows, {"sharing.mps.resources[].threads", "sharing.mps.resources[].threads.factor",
                   "sharing.mps.resources[].threads.sms", "sharing.mps.resources[].memory",
                   "sharing.mps.resources[].memory.factor", "", "sharing.mps.threads for this resource",
                   "sharing.mps.memory for this resource"});
  rows.insert(rows.end(),
              {of_words(key("sharing.mps.resources[].split", kWord, kOurs, "", "span", kNode,
                            "sharing.mps.split for this resource; span for names with %d"),
                        words(kSplitPolicies)),
               section("sharing.mps.resources[].guard", "Guard settings of this resource", KeyCase::kExact, kOurs),
               of_words(key("sharing.mps.resources[].guard.memory", kWord, kOurs, "", "observe", kNode,
                            "sharing.mps.guard.memory for this resource", "../internals/guard.md"),
                        words(kGuardMemories)),
               counted(key("sharing.mps.resources[].memoryGB", kCount, kFork, "", "4", kBoth, "memory per slot in GiB"),
                       1, 1'000'000)});
}

void add_mps(Rows& rows) {
  add_worth(rows, {"sharing.mps.threads", "sharing.mps.threads.factor", "sharing.mps.threads.sms", "sharing.mps.memory",
                   "sharing.mps.memory.factor", "equal", "SM limit per slot; the value of an entry takes precedence",
                   "memory limit per slot; the value of an entry takes precedence"});
  rows.insert(
      rows.end(),
      {of_words(key("sharing.mps.reserve", kReserve, kOurs, "none", "600Mi", kBoth,
                    "memory to keep free on each GPU before the rest is divided", "../guide/share-sizes.md"),
                {"none", "auto"}),
       of_words(key("sharing.mps.split", kWord, kOurs, "reject", "span", kNode,
                    "what to do with a container whose slots are on several GPUs; span for names with %d",
                    "../guide/share-sizes.md"),
                words(kSplitPolicies)),
       of_words(key("sharing.mps.computeMode", kWord, kOurs, "exclusive", "leave", kMps,
                    "compute mode of a GPU while MPS shares it; with leave, processes that bypass MPS have no limit"),
                words(kComputeModePolicies)),
       key("sharing.mps.proofEvery", kProof, kOurs, "10m", "30m", kMps,
           "how often to verify each pool's daemon with a test CUDA start; 0 disables it",
           "../internals/mps-contract.md"),
       of_words(key("sharing.mps.smRounding", kWord, kOurs, "up", "down", kBoth,
                    "how to round SM counts that are known to give wrong results", "../guide/share-sizes.md"),
                words(kSmRoundings)),
       of_words(key("sharing.mps.endpoint", kWord, kOurs, "relay", "link", kBoth,
                    "a container's MPS endpoint: relay is a socket of Tranche that refuses control commands; link is a "
                    "hard link to the daemon's socket, through which a tenant with root can control the daemon",
                    "../internals/mps-contract.md"),
                words(kEndpointPolicies)),
       of_words(key("sharing.mps.tier", kWord, kOurs, "auto", "v2", kMps,
                    "how shares are enforced; auto means v2; v3 is experimental and has not been tested on hardware",
                    "../guide/security.md"),
                words(kTierPolicies)),
       counted(key("sharing.mps.maxClients", kCount, kOurs, "", "48", kBoth,
                   "client capacity of one MPS server on a device; default: the driver's limit"),
               1, kMostClients),
       counted(key("sharing.mps.processesPerSlot", kCount, kOurs, "1", "2", kBoth,
                   "CUDA processes to allow for in each slot; replicas times this value must not exceed maxClients"),
               1, kMostClients),
       key("sharing.mps.migDevices", kSwitch, kOurs, "false", "true", kAll,
           "also share MIG devices by MPS, which NVIDIA's programs refuse", "../guide/share-sizes.md"),
       key("sharing.mps.stopPatience", kDuration, kOurs, "2s", "5s", kBoth,
           "time for the queued GPU work of a stopped client to finish before the client is killed, 100ms to 60s",
           "../guide/stop-and-change.md"),
       key("sharing.mps.frameworkEnvironment", kSwitch, kOurs, "true", "false", kNode,
           "set variables in containers that give their limits and keep JAX and TensorFlow within them",
           "../guide/frameworks.md"),
       key("sharing.mps.enableMemoryLimit", kSwitch, kFork, "true", "true", kBoth, "false means memory: open"),
       section("sharing.mps.guard", "Settings of the memory guard", KeyCase::kExact, kOurs),
       key("sharing.mps.guard.interval", kDuration, kOurs, "100ms", "200ms", kNode,
           "how often processes are sampled, 50ms to 10s", "../internals/guard.md"),
       of_words(
           key("sharing.mps.guard.memory", kWord, kOurs, "terminate-newest", "observe", kNode,
               "what to do when the processes of a grant together exceed its memory limit", "../internals/guard.md"),
           words(kGuardMemories)),
       of_words(
           key("sharing.mps.guard.foreignProcesses", kWord, kOurs, "observe", "terminate", kNode,
               "what to do with container processes on a shared GPU that are not MPS clients", "../internals/guard.md"),
           words(kGuardForeignProcesses))});
}

void add_individual(Rows& rows) {
  rows.insert(
      rows.end(),
      {section("individualGPU", "A fork's form of one resource per GPU", KeyCase::kExact, kFork),
       key("individualGPU.enabled", kSwitch, kFork, "false", "false", kAll, "whether this section applies"),
       key("individualGPU.namePattern", kNames, kFork, "gpu%d", R"("gpu%d")", kAll, "names of the resources"),
       entries("individualGPU.gpuConfigs", "[{index: 0, mps: {enabled: true, replicas: 20}}]", "one entry per GPU",
               kFork),
       key("individualGPU.gpuConfigs[].index", kIndex, kFork, "", "0", kAll, "index of the GPU"),
       key("individualGPU.gpuConfigs[].uuid", kText, kFork, "", "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76", kAll,
           "UUID of the GPU"),
       key("individualGPU.gpuConfigs[].name", kResource, kFork, "", "gpu0", kAll, "name of its resource"),
       section("individualGPU.gpuConfigs[].mps", "How MPS shares it", KeyCase::kExact, kFork),
       key("individualGPU.gpuConfigs[].mps.enabled", kSwitch, kFork, "false", "true", kAll, "whether MPS shares it"),
       counted(key("individualGPU.gpuConfigs[].mps.replicas", kCount, kFork, "1", "20", kAll, "slots"), 1, kMostSlots),
       key("individualGPU.gpuConfigs[].mps.enableMemoryLimit", kSwitch, kFork, "true", "true", kBoth,
           "false means memory: open"),
       counted(key("individualGPU.gpuConfigs[].mps.pinnedMemoryLimit", kCount, kFork, "", "1024", kBoth,
                   "memory per slot in MiB"),
               1, 1'000'000'000),
       key("individualGPU.gpuConfigs[].mps.activeThreadPercentage", kText, kUnused, "", "10", kNobody,
           "no effect in the fork either; use threads in an entry of sharing.mps.resources"),
       key("individualGPU.gpuConfigs[].mps.activeThreadLimit", kText, kUnused, "", "10", kNobody,
           "as activeThreadPercentage")});
}

Rows make_rows() {
  Rows rows{section("", "The file", KeyCase::kAny),
            of_words(key("version", kWord, kNvidia, "v1", "v1", kAll, "schema version; must be v1"), {"v1"})};
  add_flags(rows);
  rows.push_back(section("sharing", "How GPUs are shared", KeyCase::kAny));
  rows.push_back(of_words(key("sharing.change", kWord, kOurs, "wait", "force", kBoth,
                              "when to change how a GPU is shared: wait until no container holds it, or force it now "
                              "(running containers lose their share)",
                              "../guide/stop-and-change.md"),
                          words(kChangePolicies)));
  rows.push_back(key("sharing.perDevice", kSwitch, kOurs, "false", "true", kAll,
                     "use devices and rename of each entry, and apply timeSlicing and mps side by side",
                     "../guide/configure.md"));
  add_section(rows,
              {"sharing.timeSlicing", "Sharing by time-slicing, without memory protection",
               "sharing.timeSlicing.renameByDefault", "sharing.timeSlicing.failRequestsGreaterThanOne", "false",
               "sharing.timeSlicing.resources", "sharing.timeSlicing.resources[].name",
               "sharing.timeSlicing.resources[].replicas", "sharing.timeSlicing.resources[].rename",
               "sharing.timeSlicing.resources[].devices"},
              2);
  add_section(rows,
              {"sharing.mps", "Sharing by MPS; takes precedence over timeSlicing unless perDevice is set",
               "sharing.mps.renameByDefault", "sharing.mps.failRequestsGreaterThanOne", "true", "sharing.mps.resources",
               "sharing.mps.resources[].name", "sharing.mps.resources[].replicas", "sharing.mps.resources[].rename",
               "sharing.mps.resources[].devices"},
              1);
  add_mps_entries(rows);
  add_mps(rows);
  rows.insert(
      rows.end(),
      {section("devices", "GPUs that the node uses", KeyCase::kExact, kOurs),
       key("devices.include", kGpus, kOurs, "", R"([0, "NVIDIA H200*"])", kAll,
           "use only these GPUs: UUID, PCI address, index, or model with *"),
       key("devices.exclude", kGpus, kOurs, "", "[1]", kAll, "do not use these GPUs, even if they are included"),
       section("dra", "Dynamic Resource Allocation (experimental)", KeyCase::kExact, kOurs),
       of_words(
           key("dra.devices", kWord, kOurs, "none", "all", kBoth,
               "which GPUs of the node are offered through Dynamic Resource Allocation: none, or all of them; with "
               "all the device plugin offers none",
               "../guide/dra.md"),
           words(kDraDevicesPolicies)),
       key("dra.driverName", kDriver, kOurs, "gpu.tranche.io", "gpu.example.com", kNode,
           "name of the DRA driver, which device classes, selectors and opaque configurations refer to",
           "../guide/dra.md"),
       of_words(
           key("dra.split", kWord, kOurs, "reject", "span", kBoth,
               "a request of a claim with devices of several GPUs: reject (its claim is not prepared), or span (all "
               "GPUs of the node are one MPS pool)",
               "../guide/dra.md"),
           words(kSplitPolicies)),
       section("imex", "IMEX channels", KeyCase::kAny),
       key("imex.channelIDs", kChannels, kNvidia, "", "[0]", kNode,
           "channels to give to containers: none, or channel 0"),
       key("imex.required", kSwitch, kNvidia, "false", "true", kNode, "treat a missing channel as an error")});
  add_individual(rows);
  return rows;
}

}  // namespace

std::span<const Key> keys() {
  static const Rows rows = make_rows();
  return rows;
}

std::string without_indices(std::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

std::vector<std::string_view> names_below(std::string_view path) {
  const std::string start = path.empty() ? "" : without_indices(path) + ".";
  std::vector<std::string_view> names;
  for (const Key& row : keys()) {
    if (row.path.empty() || !row.path.starts_with(start)) continue;
    const std::string_view name = row.path.substr(start.size());
    if (!name.empty() && name.find('.') == std::string_view::npos) names.push_back(name);
  }
  return names;
}

KeyCase key_case_below(std::string_view path) {
  std::string section = without_indices(path);
  if (section.ends_with("[]")) section.resize(section.size() - 2);
  const auto row = std::ranges::find(keys(), std::string_view(section), &Key::path);
  return row == keys().end() ? KeyCase::kExact : row->below;
}

}  // namespace tranche::config
