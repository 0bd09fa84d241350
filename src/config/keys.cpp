#include "config/keys.h"

#include <algorithm>
#include <tuple>

#include "config/guard.h"
#include "config/words.h"

namespace tranche::config {
namespace {

using enum KeyType;
using enum Origin;

constexpr std::string_view kAll = "node, mps, labels";
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
      {section("flags", "What flags and variables can say as well", KeyCase::kAny),
       of_words(key("flags.migStrategy", kWord, kNvidia, "none", "mixed", kAll, "how MIG devices are advertised"),
                words(kMigStrategies)),
       key("flags.failOnInitError", kSwitch, kNvidia, "true", "false", "node, labels",
           "whether a missing driver ends the program; if not, it waits for the driver"),
       key("flags.mpsRoot", kPath, kNvidia, "/run/nvidia/mps", "/run/nvidia/mps", kBoth,
           "folder of the host for MPS state; the default counts where something is shared by MPS", "paths.md"),
       key("flags.nvidiaDriverRoot", kPath, kNvidia, "/", "/run/nvidia/driver", kBoth,
           "root of the driver on the host"),
       key("flags.nvidiaDevRoot", kPath, kNvidia, "", "/", kNode,
           "root of the device nodes on the host; without it the driver root"),
       key("flags.gdrcopyEnabled", kSwitch, kNvidia, "false", "true", kNode, "containers get GDRCopy devices"),
       key("flags.gdsEnabled", kSwitch, kNvidia, "false", "true", kNode, "containers get GPUDirect Storage devices"),
       key("flags.mofedEnabled", kSwitch, kNvidia, "false", "true", kNode, "containers get InfiniBand devices"),
       key("flags.useNodeFeatureAPI", kSwitch, kNvidia, "true", "false", kLabels,
           "gpu-feature-discovery writes a NodeFeature object, not a file", "labels.md"),
       of_words(key("flags.deviceDiscoveryStrategy", kWord, kNvidia, "auto", "nvml", "node, labels",
                    "how devices are found; vfio labels nodes and serves no devices"),
                words(kDiscoveryStrategies)),
       key("flags.namedResources", kText, kUnused, "", "[]", kNobody, "a fork's; write names in an entry instead"),
       key("flags.mpsMemoryLimiting", kText, kUnused, "", "true", kNobody,
           "a fork's; memory is limited unless memory: open"),
       section("flags.plugin", "Of the device plugin", KeyCase::kAny),
       key("flags.plugin.passDeviceSpecs", kSwitch, kNvidia, "false", "true", kNode,
           "hand device nodes to kubelet as well"),
       of_words(key("flags.plugin.deviceListStrategy", kWords, kNvidia, "[envvar]", "[envvar, cdi-cri]", kNode,
                    "how a container is told its devices; one text is not split at commas", "cdi.md"),
                words(kListStrategies)),
       of_words(key("flags.plugin.deviceIDStrategy", kWord, kNvidia, "uuid", "index", kNode,
                    "by what devices are named to a container"),
                words(kIdStrategies)),
       key("flags.plugin.cdiAnnotationPrefix", kText, kNvidia, "cdi.k8s.io/", "cdi.k8s.io/", kNode,
           "prefix of CDI annotations", "cdi.md"),
       key("flags.plugin.nvidiaCTKPath", kPath, kNvidia, "/usr/bin/nvidia-ctk", "/usr/bin/nvidia-ctk", kNode,
           "hook program written into CDI specs", "cdi.md"),
       key("flags.plugin.containerDriverRoot", kPath, kNvidia, "/driver-root", "/driver-root", kAll,
           "where the driver root is mounted in our own container"),
       of_words(key("flags.plugin.sharedDevicesAllocationPolicy", kWord, kNvidia, "distributed", "packed", kNode,
                    "which shared device is preferred: the least or the most used"),
                words(kAllocationPolicies)),
       section("flags.gfd", "Of GPU feature discovery", KeyCase::kAny),
       key("flags.gfd.oneshot", kSwitch, kNvidia, "false", "true", kLabels, "label once and end"),
       key("flags.gfd.noTimestamp", kSwitch, kNvidia, "false", "true", kLabels, "leave the timestamp label out"),
       key("flags.gfd.sleepInterval", kDuration, kNvidia, "60s", "1m30s", kLabels,
           "pause between rounds of labelling, or infinite; a bare number counts nanoseconds"),
       key("flags.gfd.outputFile", kPath, kNvidia, "/etc/kubernetes/node-feature-discovery/features.d/gfd", "/tmp/gfd",
           kLabels, "file for the labels; empty: standard output"),
       key("flags.gfd.machineTypeFile", kPath, kNvidia, "/sys/class/dmi/id/product_name",
           "/sys/class/dmi/id/product_name", kLabels, "file that holds the machine's model"),
       section("resources", "Checked and not used, as in NVIDIA's programs", KeyCase::kAny, kUnused)});
  for (const auto& [path, pattern, name] :
       {std::tuple{"resources.gpus", "resources.gpus[].pattern", "resources.gpus[].name"},
        std::tuple{"resources.mig", "resources.mig[].pattern", "resources.mig[].name"}}) {
    rows.push_back(entries(path, R"([{pattern: "*", name: gpu}])", "rules that name resources; not used", kUnused));
    rows.push_back(key(pattern, kText, kUnused, "", R"("*")", kNobody, "pattern of a model or profile"));
    rows.push_back(key(name, kText, kUnused, "", "gpu", kNobody, "name of the resource"));
  }
}

// What a slot is worth, of sharing.mps and of one of its entries.
struct Worth {
  std::string_view threads, threads_factor, threads_sms, memory, memory_factor, usual, threads_meaning, memory_meaning;
};

void add_worth(Rows& rows, const Worth& at) {
  constexpr std::string_view kShares = "../guide/share-sizes.md";
  rows.insert(rows.end(),
              {of_words(key(at.threads, kThreads, kOurs, at.usual, "{factor: 2}", kBoth, at.threads_meaning, kShares),
                        {"equal", "open", "tenant"}),
               key(at.threads_factor, kFactor, kOurs, "", "2", kBoth, "times an equal part"),
               counted(key(at.threads_sms, kCount, kOurs, "", "16", kBoth, "SMs of one slot"), 1, 1024),
               of_words(key(at.memory, kMemory, kOurs, at.usual, "4Gi", kBoth, at.memory_meaning, kShares),
                        {"equal", "open", "tenant"}),
               key(at.memory_factor, kFactor, kOurs, "", "1.5", kBoth, "times an equal part")});
}

// What sharing.timeSlicing and sharing.mps have in common.
struct Section {
  std::string_view section, meaning, rename_by_default, fail, fail_usual, resources, name, replicas, rename, devices;
};

void add_section(Rows& rows, const Section& s, std::uint32_t least_replicas) {
  rows.insert(
      rows.end(),
      {section(s.section, s.meaning, KeyCase::kExact),
       key(s.rename_by_default, kSwitch, kNvidia, "false", "true", kAll, "advertise <name>.shared instead of <name>"),
       key(s.fail, kSwitch, kNvidia, s.fail_usual, "false", kBoth, "a container may hold one slot only"),
       entries(s.resources, "[{name: nvidia.com/gpu, replicas: 4}]", "what is shared; required"),
       key(s.name, kResource, kNvidia, "", "nvidia.com/gpu", kAll,
           "the resource that is shared, required; nvidia.com/ is added where it is missing"),
       counted(key(s.replicas, kCount, kNvidia, "", "4", kAll,
                   least_replicas == 1 ? "slots of each device, required unless slotMemory says it; 1 is the whole GPU "
                                         "through MPS; more than a server has clients are units of which a container "
                                         "may hold several"
                                       : "slots of each device, required",
                   "../guide/share-sizes.md"),
               least_replicas, kMostSlots),
       key(s.rename, kResource, kNvidia, "", "nvidia.com/gpu.shared", kAll,
           "checked and not used, as in NVIDIA's programs; with sharing.perDevice the name that the slots are "
           "advertised under"),
       key(s.devices, kDevices, kNvidia, "all", "all", kAll,
           "checked and not used, as in NVIDIA's programs; with sharing.perDevice the devices of this entry",
           "../guide/configure.md")});
}

void add_mps_entries(Rows& rows) {
  rows.insert(rows.end(), {key("sharing.mps.resources[].slotMemory", kSize, kOurs, "", "4Gi", kAll,
                               "in place of replicas: as many slots as the memory of each GPU (less the reserve) holds",
                               "../guide/share-sizes.md"),
                           key("sharing.mps.resources[].names", kNames, kOurs, "", R"("gpu%d")", kAll,
                               "a resource for each index (%d), size of slot in GiB (%g) or model (%m)",
                               "../guide/share-sizes.md")});
  add_worth(rows, {"sharing.mps.resources[].threads", "sharing.mps.resources[].threads.factor",
                   "sharing.mps.resources[].threads.sms", "sharing.mps.resources[].memory",
                   "sharing.mps.resources[].memory.factor", "", "the same as sharing.mps.threads, for this resource",
                   "the same as sharing.mps.memory, for this resource"});
  rows.insert(
      rows.end(),
      {of_words(key("sharing.mps.resources[].split", kWord, kOurs, "", "span", kNode,
                    "the same as sharing.mps.split, for this resource; span for names with %d"),
                words(kSplitPolicies)),
       section("sharing.mps.resources[].guard", "What the guard does with this resource", KeyCase::kExact, kOurs),
       of_words(key("sharing.mps.resources[].guard.memory", kWord, kOurs, "", "observe", kNode,
                    "the same as sharing.mps.guard.memory, for this resource", "../internals/guard.md"),
                words(kGuardMemories)),
       counted(key("sharing.mps.resources[].memoryGB", kCount, kFork, "", "4", kBoth, "memory of one slot in GiB"), 1,
               1'000'000)});
}

void add_mps(Rows& rows) {
  add_worth(rows, {"sharing.mps.threads", "sharing.mps.threads.factor", "sharing.mps.threads.sms", "sharing.mps.memory",
                   "sharing.mps.memory.factor", "equal",
                   "how much of a GPU's SMs a slot is worth; an entry's own word comes before it",
                   "how much of a GPU's memory a slot is worth; an entry's own word comes before it"});
  rows.insert(
      rows.end(),
      {of_words(key("sharing.mps.reserve", kReserve, kOurs, "none", "600Mi", kBoth,
                    "what is taken off each GPU before its memory is divided", "../guide/share-sizes.md"),
                {"none", "auto"}),
       of_words(key("sharing.mps.split", kWord, kOurs, "reject", "span", kNode,
                    "what happens to a container whose slots lie on several GPUs; span for names with %d",
                    "../guide/share-sizes.md"),
                words(kSplitPolicies)),
       of_words(key("sharing.mps.computeMode", kWord, kOurs, "exclusive", "leave", kMps,
                    "a GPU's compute mode while MPS shares it; under leave, programs that avoid MPS have no limit"),
                words(kComputeModePolicies)),
       key("sharing.mps.proofEvery", kProof, kOurs, "10m", "30m", kMps,
           "how often a CUDA program is started through each pool's daemon to prove that it serves; 0: never",
           "../internals/mps-contract.md"),
       of_words(key("sharing.mps.smRounding", kWord, kOurs, "up", "down", kBoth,
                    "what to do with SM counts known to compute wrong", "../guide/share-sizes.md"),
                words(kSmRoundings)),
       of_words(key("sharing.mps.door", kWord, kOurs, "gate", "link", kBoth,
                    "what a container finds as its way to MPS: a socket of ours that refuses commands, or a hard link "
                    "to the daemon's own, through which tenants with root can command it",
                    "../internals/mps-contract.md"),
                words(kDoorPolicies)),
       of_words(key("sharing.mps.tier", kWord, kOurs, "auto", "v2", kMps,
                    "by what means shares are enforced; auto is v2; static and v3 were not tried on hardware",
                    "../guide/security.md"),
                words(kTierPolicies)),
       counted(key("sharing.mps.maxClients", kCount, kOurs, "", "48", kBoth,
                   "how many clients one MPS server is counted to take on a device; without it what the driver takes"),
               1, kMostClients),
       counted(key("sharing.mps.processesPerSlot", kCount, kOurs, "1", "2", kBoth,
                   "how many CUDA processes a slot must have room for; times replicas no more than maxClients"),
               1, kMostClients),
       key("sharing.mps.migDevices", kSwitch, kOurs, "false", "true", kAll,
           "MPS serves MIG devices as well, which NVIDIA's programs refuse", "../guide/share-sizes.md"),
       key("sharing.mps.stopPatience", kDuration, kOurs, "2s", "5s", kBoth,
           "how long the queued GPU work of a stopped client is given before the client is killed, from 100ms to 60s",
           "../guide/stop-and-change.md"),
       key("sharing.mps.frameworkEnvironment", kSwitch, kOurs, "true", "false", kNode,
           "containers with a share get variables that say what it is worth and that keep JAX and TensorFlow in it",
           "../guide/frameworks.md"),
       key("sharing.mps.enableMemoryLimit", kSwitch, kFork, "true", "true", kBoth, "false is memory: open"),
       section("sharing.mps.guard", "The guard of memory", KeyCase::kExact, kOurs),
       key("sharing.mps.guard.interval", kDuration, kOurs, "100ms", "200ms", kNode,
           "how often processes are looked at, from 50ms to 10s", "../internals/guard.md"),
       of_words(key("sharing.mps.guard.memory", kWord, kOurs, "terminate-newest", "observe", kNode,
                    "what happens when the processes of a grant together hold more than it is worth",
                    "../internals/guard.md"),
                words(kGuardMemories)),
       of_words(key("sharing.mps.guard.strangers", kWord, kOurs, "observe", "terminate", kNode,
                    "what happens to containers' processes on a shared GPU that are no MPS clients",
                    "../internals/guard.md"),
                words(kGuardStrangers))});
}

void add_individual(Rows& rows) {
  rows.insert(
      rows.end(),
      {section("individualGPU", "A fork's way to say: a resource for each GPU", KeyCase::kExact, kFork),
       key("individualGPU.enabled", kSwitch, kFork, "false", "false", kAll, "whether the section counts"),
       key("individualGPU.namePattern", kNames, kFork, "gpu%d", R"("gpu%d")", kAll, "names of the resources"),
       entries("individualGPU.gpuConfigs", "[{index: 0, mps: {enabled: true, replicas: 20}}]", "one entry a GPU",
               kFork),
       key("individualGPU.gpuConfigs[].index", kIndex, kFork, "", "0", kAll, "the GPU, by index"),
       key("individualGPU.gpuConfigs[].uuid", kText, kFork, "", "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76", kAll,
           "the GPU, by UUID"),
       key("individualGPU.gpuConfigs[].name", kResource, kFork, "", "gpu0", kAll, "name of its resource"),
       section("individualGPU.gpuConfigs[].mps", "How MPS shares it", KeyCase::kExact, kFork),
       key("individualGPU.gpuConfigs[].mps.enabled", kSwitch, kFork, "false", "true", kAll, "whether MPS shares it"),
       counted(key("individualGPU.gpuConfigs[].mps.replicas", kCount, kFork, "1", "20", kAll, "slots"), 1, kMostSlots),
       key("individualGPU.gpuConfigs[].mps.enableMemoryLimit", kSwitch, kFork, "true", "true", kBoth,
           "false is memory: open"),
       counted(key("individualGPU.gpuConfigs[].mps.pinnedMemoryLimit", kCount, kFork, "", "1024", kBoth,
                   "memory of one slot in MiB"),
               1, 1'000'000'000),
       key("individualGPU.gpuConfigs[].mps.activeThreadPercentage", kText, kUnused, "", "10", kNobody,
           "without effect there and here; write threads in an entry of sharing.mps.resources"),
       key("individualGPU.gpuConfigs[].mps.activeThreadLimit", kText, kUnused, "", "10", kNobody, "the same")});
}

Rows make_rows() {
  Rows rows{section("", "The file", KeyCase::kAny),
            of_words(key("version", kWord, kNvidia, "v1", "v1", kAll, "the only one there is"), {"v1"})};
  add_flags(rows);
  rows.push_back(section("sharing", "How GPUs are shared", KeyCase::kAny));
  rows.push_back(of_words(key("sharing.change", kWord, kOurs, "wait", "force", kBoth,
                              "a GPU that is to be shared by other means changes when nothing of it is held, or at "
                              "once; then containers lose what they hold of it",
                              "../guide/stop-and-change.md"),
                          words(kChangePolicies)));
  rows.push_back(key("sharing.perDevice", kSwitch, kOurs, "false", "true", kAll,
                     "devices and rename of entries count, and timeSlicing and mps are in force side by side",
                     "../guide/configure.md"));
  add_section(
      rows,
      {"sharing.timeSlicing", "Sharing by time-slicing: no memory protection", "sharing.timeSlicing.renameByDefault",
       "sharing.timeSlicing.failRequestsGreaterThanOne", "false", "sharing.timeSlicing.resources",
       "sharing.timeSlicing.resources[].name", "sharing.timeSlicing.resources[].replicas",
       "sharing.timeSlicing.resources[].rename", "sharing.timeSlicing.resources[].devices"},
      2);
  add_section(rows,
              {"sharing.mps", "Sharing by MPS; wins over timeSlicing where both are given without perDevice",
               "sharing.mps.renameByDefault", "sharing.mps.failRequestsGreaterThanOne", "true", "sharing.mps.resources",
               "sharing.mps.resources[].name", "sharing.mps.resources[].replicas", "sharing.mps.resources[].rename",
               "sharing.mps.resources[].devices"},
              1);
  add_mps_entries(rows);
  add_mps(rows);
  rows.insert(
      rows.end(),
      {section("devices", "Which GPUs the node works with at all", KeyCase::kExact, kOurs),
       key("devices.include", kGpus, kOurs, "", R"([0, "NVIDIA H200*"])", kAll,
           "with anything here, only these: UUID, PCI address, index, or model with *"),
       key("devices.exclude", kGpus, kOurs, "", "[1]", kAll, "not these, whatever is included"),
       section("imex", "IMEX channels", KeyCase::kAny),
       key("imex.channelIDs", kChannels, kNvidia, "", "[0]", kNode, "channels for containers: none, or 0"),
       key("imex.required", kSwitch, kNvidia, "false", "true", kNode, "whether a missing channel is an error")});
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
