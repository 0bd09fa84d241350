#include "config/keys.h"

#include <algorithm>
#include <tuple>

#include "config/enum_text.h"
#include "config/guard.h"

namespace tranche::config {
namespace {

using enum KeyType;
using enum Origin;

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
        std::string_view meaning, std::string_view see = {}) {
  return {path, type, origin, usual, sample, meaning, see};
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
       of_words(key("flags.migStrategy", kWord, kNvidia, "none", "mixed", "how MIG devices are advertised"),
                words(kMigStrategies)),
       key("flags.failOnInitError", kSwitch, kNvidia, "true", "false",
           "whether a missing driver is an error: labelling programs exit, tranche node waits but is not ready"),
       key("flags.mpsRoot", kPath, kNvidia, "/run/nvidia/mps", "/run/nvidia/mps",
           "host directory for MPS state; the default applies if MPS shares a resource", "paths.md"),
       key("flags.nvidiaDriverRoot", kPath, kNvidia, "/", "/run/nvidia/driver",
           "root of the driver installation on the host"),
       key("flags.nvidiaDevRoot", kPath, kNvidia, "", "/",
           "root of the device nodes on the host; default: the driver root"),
       key("flags.gdrcopyEnabled", kSwitch, kNvidia, "false", "true", "give GDRCopy devices to containers"),
       key("flags.gdsEnabled", kSwitch, kNvidia, "false", "true", "give GPUDirect Storage devices to containers"),
       key("flags.mofedEnabled", kSwitch, kNvidia, "false", "true", "give InfiniBand devices to containers"),
       key("flags.useNodeFeatureAPI", kSwitch, kNvidia, "true", "false",
           "gpu-feature-discovery writes a NodeFeature object instead of a file", "labels.md"),
       of_words(key("flags.deviceDiscoveryStrategy", kWord, kNvidia, "auto", "nvml",
                    "how devices are found; vfio only labels the node"),
                words(kDiscoveryStrategies)),
       key("flags.namedResources", kText, kUnused, "", "[]", "key of a fork; use names in an entry instead"),
       key("flags.mpsMemoryLimiting", kText, kUnused, "", "true",
           "key of a fork; memory is limited unless memory is open"),
       section("flags.plugin", "Settings of the device plugin", KeyCase::kAny),
       key("flags.plugin.passDeviceSpecs", kSwitch, kNvidia, "false", "true", "also return device nodes to kubelet"),
       of_words(key("flags.plugin.deviceListStrategy", kWords, kNvidia, "[envvar]", "[envvar, cdi-cri]",
                    "how containers get devices; a single string is not split at commas", "cdi.md"),
                words(kListStrategies)),
       of_words(key("flags.plugin.deviceIDStrategy", kWord, kNvidia, "uuid", "index",
                    "how devices are identified to containers"),
                words(kIdStrategies)),
       key("flags.plugin.cdiAnnotationPrefix", kText, kNvidia, "cdi.k8s.io/", "cdi.k8s.io/",
           "prefix of CDI annotations", "cdi.md"),
       key("flags.plugin.nvidiaCTKPath", kPath, kNvidia, "/usr/bin/nvidia-ctk", "/usr/bin/nvidia-ctk",
           "hook program written into CDI specs", "cdi.md"),
       key("flags.plugin.containerDriverRoot", kPath, kNvidia, "/driver-root", "/driver-root",
           "mount path of the driver root in Tranche's container"),
       of_words(key("flags.plugin.sharedDevicesAllocationPolicy", kWord, kNvidia, "distributed", "packed",
                    "prefer the least used shared device (distributed) or the most used (packed)"),
                words(kAllocationPolicies)),
       section("flags.gfd", "Settings of GPU feature discovery", KeyCase::kAny),
       key("flags.gfd.oneshot", kSwitch, kNvidia, "false", "true", "label once and exit"),
       key("flags.gfd.noTimestamp", kSwitch, kNvidia, "false", "true", "omit the timestamp label"),
       key("flags.gfd.sleepInterval", kDuration, kNvidia, "60s", "1m30s",
           "labelling interval, or infinite; without a unit: nanoseconds"),
       key("flags.gfd.outputFile", kPath, kNvidia, "/etc/kubernetes/node-feature-discovery/features.d/gfd", "/tmp/gfd",
           "file for the labels; empty: standard output"),
       key("flags.gfd.machineTypeFile", kPath, kNvidia, "/sys/class/dmi/id/product_name",
           "/sys/class/dmi/id/product_name", "file with the machine model"),
       section("resources", "Checked and not used, as in NVIDIA's programs", KeyCase::kAny, kUnused)});
  for (const auto& [path, pattern, name] :
       {std::tuple{"resources.gpus", "resources.gpus[].pattern", "resources.gpus[].name"},
        std::tuple{"resources.mig", "resources.mig[].pattern", "resources.mig[].name"}}) {
    rows.push_back(entries(path, R"([{pattern: "*", name: gpu}])", "rules for naming resources", kUnused));
    rows.push_back(key(pattern, kText, kUnused, "", R"("*")", "pattern for a model or profile"));
    rows.push_back(key(name, kText, kUnused, "", "gpu", "name of the resource"));
  }
}

// Limits of a slot, in sharing.mps and in one of its entries.
struct LimitKeys {
  std::string_view threads, threads_factor, threads_sms, memory, memory_factor, usual, threads_meaning, memory_meaning;
};

void add_limit_keys(Rows& rows, const LimitKeys& at) {
  constexpr std::string_view kShares = "../guide/share-sizes.md";
  rows.insert(rows.end(),
              {of_words(key(at.threads, kThreads, kOurs, at.usual, "{factor: 2}", at.threads_meaning, kShares),
                        {"equal", "open", "tenant"}),
               key(at.threads_factor, kFactor, kOurs, "", "2", "multiple of an equal share"),
               counted(key(at.threads_sms, kCount, kOurs, "", "16", "SMs per slot"), 1, 1024),
               of_words(key(at.memory, kMemory, kOurs, at.usual, "4Gi", at.memory_meaning, kShares),
                        {"equal", "open", "tenant"}),
               key(at.memory_factor, kFactor, kOurs, "", "1.5", "multiple of an equal share")});
}

// Keys common to sharing.timeSlicing and sharing.mps.
struct Section {
  std::string_view section, meaning, rename_by_default, fail, fail_usual, resources, name, replicas, rename, devices;
};

void add_section(Rows& rows, const Section& s, std::uint32_t least_replicas) {
  rows.insert(
      rows.end(),
      {section(s.section, s.meaning, KeyCase::kExact),
       key(s.rename_by_default, kSwitch, kNvidia, "false", "true", "advertise NAME.shared instead of NAME"),
       key(s.fail, kSwitch, kNvidia, s.fail_usual, "false", "a container may hold only one slot"),
       entries(s.resources, "[{name: nvidia.com/gpu, replicas: 4}]", "resources to share; required"),
       key(s.name, kResource, kNvidia, "", "nvidia.com/gpu",
           "resource to share, required; the prefix nvidia.com/ is optional"),
       counted(key(s.replicas, kCount, kNvidia, "", "4",
                   least_replicas == 1
                       ? "slots per device; required without slotMemory; 1: the whole GPU through MPS; above the MPS "
                         "server's client capacity: units, of which a container may hold several"
                       : "slots per device; required",
                   "../guide/share-sizes.md"),
               least_replicas, kMostSlots),
       key(s.rename, kResource, kNvidia, "", "nvidia.com/gpu.shared", "advertised name; only with sharing.perDevice"),
       key(s.devices, kDevices, kNvidia, "all", "all", "devices of this entry; only with sharing.perDevice",
           "../guide/configure.md")});
}

void add_mps_entries(Rows& rows) {
  rows.insert(rows.end(),
              {key("sharing.mps.resources[].slotMemory", kSize, kOurs, "", "4Gi",
                   "instead of replicas: as many slots of this size as fit in each GPU, minus the reserve",
                   "../guide/share-sizes.md"),
               key("sharing.mps.resources[].names", kNames, kOurs, "", R"("gpu%d")",
                   "one resource per GPU index (%d), slot size in GiB (%g) or model (%m)", "../guide/share-sizes.md")});
  add_limit_keys(rows, {"sharing.mps.resources[].threads", "sharing.mps.resources[].threads.factor",
                        "sharing.mps.resources[].threads.sms", "sharing.mps.resources[].memory",
                        "sharing.mps.resources[].memory.factor", "", "sharing.mps.threads for this resource",
                        "sharing.mps.memory for this resource"});
  rows.insert(rows.end(),
              {of_words(key("sharing.mps.resources[].split", kWord, kOurs, "", "span",
                            "sharing.mps.split for this resource; span for names with %d"),
                        words(kSplitPolicies)),
               section("sharing.mps.resources[].guard", "Guard settings of this resource", KeyCase::kExact, kOurs),
               of_words(key("sharing.mps.resources[].guard.memory", kWord, kOurs, "", "observe",
                            "sharing.mps.guard.memory for this resource", "../internals/guard.md"),
                        words(kGuardMemories)),
               counted(key("sharing.mps.resources[].memoryGB", kCount, kFork, "", "4", "memory per slot in GiB"), 1,
                       1'000'000)});
}

void add_mps(Rows& rows) {
  add_limit_keys(rows,
                 {"sharing.mps.threads", "sharing.mps.threads.factor", "sharing.mps.threads.sms", "sharing.mps.memory",
                  "sharing.mps.memory.factor", "equal", "SM limit per slot; an entry's value takes precedence",
                  "memory limit per slot; an entry's value takes precedence"});
  rows.insert(
      rows.end(),
      {of_words(key("sharing.mps.reserve", kReserve, kOurs, "none", "600Mi",
                    "memory of each GPU to keep free before the rest is divided", "../guide/share-sizes.md"),
                {"none", "auto"}),
       of_words(key("sharing.mps.split", kWord, kOurs, "reject", "span",
                    "containers with slots on several GPUs; span for names with %d", "../guide/share-sizes.md"),
                words(kSplitPolicies)),
       of_words(key("sharing.mps.computeMode", kWord, kOurs, "exclusive", "leave",
                    "compute mode of a GPU that MPS shares; with leave, processes that bypass MPS have no limit"),
                words(kComputeModePolicies)),
       key("sharing.mps.proofEvery", kProof, kOurs, "10m", "30m",
           "interval of test CUDA starts through each pool's daemon; 0: none", "../internals/mps-contract.md"),
       of_words(key("sharing.mps.smRounding", kWord, kOurs, "up", "down",
                    "rounding of SM counts that are known to give wrong results", "../guide/share-sizes.md"),
                words(kSmRoundings)),
       of_words(key("sharing.mps.endpoint", kWord, kOurs, "relay", "link",
                    "a container's MPS endpoint: Tranche's socket, which refuses control commands (relay), or a hard "
                    "link to the daemon's, by which root in a container can control the daemon (link)",
                    "../internals/mps-contract.md"),
                words(kEndpointPolicies)),
       of_words(key("sharing.mps.tier", kWord, kUnused, "", "auto", "no effect; v2 is the only tier"), {"auto", "v2"}),
       counted(key("sharing.mps.maxClients", kCount, kOurs, "", "48",
                   "client capacity of an MPS server; default: the driver's limit"),
               1, kMostClients),
       counted(key("sharing.mps.processesPerSlot", kCount, kOurs, "1", "2",
                   "CUDA processes per slot; times replicas at most maxClients"),
               1, kMostClients),
       key("sharing.mps.migDevices", kSwitch, kOurs, "false", "true", "also share MIG devices by MPS",
           "../guide/share-sizes.md"),
       key("sharing.mps.stopPatience", kDuration, kOurs, "2s", "5s",
           "time for a stopped client's queued GPU work before it is killed, 100ms to 60s",
           "../guide/stop-and-change.md"),
       key("sharing.mps.frameworkEnvironment", kSwitch, kOurs, "true", "false",
           "set variables in containers that keep JAX and TensorFlow within the limits", "../guide/frameworks.md"),
       key("sharing.mps.enableMemoryLimit", kSwitch, kFork, "true", "true", "false means memory: open"),
       section("sharing.mps.guard", "Settings of the memory guard", KeyCase::kExact, kOurs),
       key("sharing.mps.guard.interval", kDuration, kOurs, "100ms", "200ms", "sampling interval, 50ms to 10s",
           "../internals/guard.md"),
       of_words(key("sharing.mps.guard.memory", kWord, kOurs, "terminate-newest", "observe",
                    "action when a grant's processes together exceed its memory limit", "../internals/guard.md"),
                words(kGuardMemories)),
       of_words(key("sharing.mps.guard.foreignProcesses", kWord, kOurs, "observe", "terminate",
                    "action on container processes on a shared GPU that are not MPS clients", "../internals/guard.md"),
                words(kGuardForeignProcesses))});
}

void add_individual(Rows& rows) {
  rows.insert(
      rows.end(),
      {section("individualGPU", "A fork's form of one resource per GPU", KeyCase::kExact, kFork),
       key("individualGPU.enabled", kSwitch, kFork, "false", "false", "whether the section applies"),
       key("individualGPU.namePattern", kNames, kFork, "gpu%d", R"("gpu%d")", "names of the resources"),
       entries("individualGPU.gpuConfigs", "[{index: 0, mps: {enabled: true, replicas: 20}}]", "one entry per GPU",
               kFork),
       key("individualGPU.gpuConfigs[].index", kIndex, kFork, "", "0", "index of the GPU"),
       key("individualGPU.gpuConfigs[].uuid", kText, kFork, "", "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76",
           "UUID of the GPU"),
       key("individualGPU.gpuConfigs[].name", kResource, kFork, "", "gpu0", "name of its resource"),
       section("individualGPU.gpuConfigs[].mps", "How MPS shares it", KeyCase::kExact, kFork),
       key("individualGPU.gpuConfigs[].mps.enabled", kSwitch, kFork, "false", "true", "whether MPS shares it"),
       counted(key("individualGPU.gpuConfigs[].mps.replicas", kCount, kFork, "1", "20", "slots"), 1, kMostSlots),
       key("individualGPU.gpuConfigs[].mps.enableMemoryLimit", kSwitch, kFork, "true", "true",
           "false means memory: open"),
       counted(
           key("individualGPU.gpuConfigs[].mps.pinnedMemoryLimit", kCount, kFork, "", "1024", "memory per slot in MiB"),
           1, 1'000'000'000),
       key("individualGPU.gpuConfigs[].mps.activeThreadPercentage", kText, kUnused, "", "10",
           "no effect in the fork either; use threads in an entry of sharing.mps.resources"),
       key("individualGPU.gpuConfigs[].mps.activeThreadLimit", kText, kUnused, "", "10", "as activeThreadPercentage")});
}

Rows make_rows() {
  Rows rows{section("", "The file", KeyCase::kAny),
            of_words(key("version", kWord, kNvidia, "v1", "v1", "schema version"), {"v1"})};
  add_flags(rows);
  rows.push_back(section("sharing", "How GPUs are shared", KeyCase::kAny));
  rows.push_back(
      of_words(key("sharing.change", kWord, kUnused, "", "wait", "no effect; wait is the only value"), {"wait"}));
  rows.push_back(key("sharing.perDevice", kSwitch, kOurs, "false", "true",
                     "use devices and rename of each entry, and timeSlicing and mps side by side",
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
  rows.insert(rows.end(),
              {section("devices", "GPUs that the node uses", KeyCase::kExact, kOurs),
               key("devices.include", kGpus, kOurs, "", R"([0, "NVIDIA H200*"])", "use only these GPUs"),
               key("devices.exclude", kGpus, kOurs, "", "[1]", "do not use these GPUs, even if included"),
               section("dra", "Dynamic Resource Allocation (experimental)", KeyCase::kExact, kOurs),
               of_words(key("dra.devices", kSomeGpus, kOurs, "none", "all",
                            "GPUs offered through Dynamic Resource Allocation; the device plugin offers the others",
                            "../guide/dra.md"),
                        words(kDraDevicesPolicies)),
               key("dra.driverName", kDriver, kOurs, "gpu.tranche.io", "gpu.example.com",
                   "name of the DRA driver in device classes, selectors and opaque configurations", "../guide/dra.md"),
               of_words(key("dra.split", kWord, kOurs, "reject", "span",
                            "requests of a claim with devices of several GPUs: its claim is not prepared (reject), or "
                            "all GPUs of the node are one MPS pool (span)",
                            "../guide/dra.md"),
                        words(kSplitPolicies)),
               of_words(key("dra.partitions", kWord, kOurs, "static", "onDemand",
                            "GPUs in MIG mode: claims get their present MIG devices (static), or instances that are "
                            "made when a claim is prepared (onDemand)",
                            "../guide/dra.md#partitions-on-demand"),
                        words(kDraPartitionPolicies)),
               section("imex", "IMEX channels", KeyCase::kAny),
               key("imex.channelIDs", kChannels, kNvidia, "", "[0]", "IMEX channels to give to containers"),
               key("imex.required", kSwitch, kNvidia, "false", "true", "whether a missing channel is an error")});
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
