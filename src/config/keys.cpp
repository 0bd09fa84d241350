#include "config/keys.h"

#include <nlohmann/json.hpp>
#include <ranges>

#include "config/field.h"

namespace tranche::config {
namespace {

using enum KeyType;
using enum Origin;

Key section(std::string path, std::string_view meaning, KeyCase below, Origin origin = kNvidia) {
  return {
      .path = std::move(path), .type = kSection, .origin = origin, .sample = "{}", .meaning = meaning, .below = below};
}

Key key(std::string path, KeyType type, Origin origin, std::string usual, std::string sample, std::string_view meaning,
        std::string_view see = {}) {
  return {.path = std::move(path),
          .type = type,
          .origin = origin,
          .usual = std::move(usual),
          .sample = std::move(sample),
          .meaning = meaning,
          .see = see};
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

Key with_usual(std::string usual, Key row) {
  row.usual = std::move(usual);
  return row;
}

using Rows = std::vector<Key>;

// Completes a row by the member that `Field` selects in a Config.
template <auto Field>
Key of(Key row) {
  using Member = std::remove_cvref_t<decltype(Field(std::declval<Config&>()))>;
  if (row.type == kText) row.type = type_of<Member>();
  if constexpr (Enumeration<Member>) row.words = enum_names<Member>();
  if constexpr (std::is_same_v<Member, std::vector<ListStrategy>>) row.words = enum_names<ListStrategy>();
  if (const auto usual = json_value(Field(Config{})); row.usual.empty() && !usual.is_null() && row.type != kTexts)
    row.usual = row.type == kWordList ? "[" + shown(usual) + "]" : shown(usual);
  if (row.sample.empty())
    row.sample = row.type == kSomeGpus ? "all" : row.type == kChannels ? "[0]" : row.type == kCount ? "1" : row.usual;
  if (row.sample.empty()) row.sample = "/";
  if constexpr (!std::is_same_v<Member, Texts>)
    row.read = [](const Value& value, const Key& key, Config& config) { read_into(value, Field(config), key); };
  row.json = [](const Config& config) { return json_value(Field(config)); };
  if constexpr (requires(Config& config) { assign_to(Field(config), GivenTexts{}); })
    row.assign = [](Config& config, const GivenTexts& given) { return assign_to(Field(config), given); };
  return row;
}

#define FIELD(expression) [](auto&& config) -> auto& { return config.expression; }

using Names = std::vector<std::string_view>;
constexpr auto kPlugin = Program::kDevicePlugin;
constexpr auto kDiscovery = Program::kFeatureDiscovery;

// A key of NVIDIA's that a flag and a variable can set too.
template <auto Field>
Key flag(std::string path, std::string_view meaning, Names flags, Names variables,
         std::vector<Program> programs = {kPlugin}, KeyType type = kText, std::string_view see = {}) {
  return of<Field>({.path = std::move(path),
                    .type = type,
                    .meaning = meaning,
                    .see = see,
                    .programs = std::move(programs),
                    .flags = std::move(flags),
                    .variables = std::move(variables)});
}

// A key of Tranche.
template <auto Field>
Key own(std::string path, std::string_view meaning, std::string_view see = {}) {
  return of<Field>({.path = std::move(path), .origin = kOurs, .meaning = meaning, .see = see});
}

void add_flags(Rows& rows) {
  rows.insert(
      rows.end(),
      {section("flags", "Settings that flags and variables can also set", KeyCase::kAny),
       flag<FIELD(flags.mig_strategy)>("flags.migStrategy", "how MIG devices are advertised", {"mig-strategy"},
                                       {"MIG_STRATEGY", "GFD_MIG_STRATEGY"},
                                       {kPlugin, kDiscovery, Program::kMpsControlDaemon}),
       flag<FIELD(flags.fail_on_init_error)>(
           "flags.failOnInitError",
           "whether a missing driver is an error: labelling programs exit, tranche node waits but is not ready",
           {"fail-on-init-error"}, {"FAIL_ON_INIT_ERROR", "GFD_FAIL_ON_INIT_ERROR"}, {kPlugin, kDiscovery}),
       with_usual("/run/nvidia/mps",
                  flag<FIELD(flags.mps_root)>(
                      "flags.mpsRoot", "host directory for MPS state; the default applies if MPS shares a resource",
                      {"mps-root"}, {"MPS_ROOT"}, {kPlugin}, kPath, "paths.md")),
       flag<FIELD(flags.nvidia_driver_root)>("flags.nvidiaDriverRoot", "root of the driver installation on the host",
                                             {"driver-root", "nvidia-driver-root"}, {"NVIDIA_DRIVER_ROOT"}, {kPlugin},
                                             kPath),
       flag<FIELD(flags.nvidia_dev_root)>("flags.nvidiaDevRoot",
                                          "root of the device nodes on the host; default: the driver root",
                                          {"dev-root", "nvidia-dev-root"}, {"NVIDIA_DEV_ROOT"}, {kPlugin}, kPath),
       flag<FIELD(flags.gdrcopy_enabled)>("flags.gdrcopyEnabled", "give GDRCopy devices to containers",
                                          {"gdrcopy-enabled"}, {"GDRCOPY_ENABLED"}),
       flag<FIELD(flags.gds_enabled)>("flags.gdsEnabled", "give GPUDirect Storage devices to containers",
                                      {"gds-enabled"}, {"GDS_ENABLED"}),
       flag<FIELD(flags.mofed_enabled)>("flags.mofedEnabled", "give InfiniBand devices to containers",
                                        {"mofed-enabled"}, {"MOFED_ENABLED"}),
       flag<FIELD(flags.use_node_feature_api)>(
           "flags.useNodeFeatureAPI", "gpu-feature-discovery writes a NodeFeature object instead of a file",
           {"use-node-feature-api"}, {"GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"}, {kDiscovery}, kText,
           "labels.md"),
       flag<FIELD(flags.device_discovery_strategy)>(
           "flags.deviceDiscoveryStrategy", "how devices are found; vfio only labels the node",
           {"device-discovery-strategy"}, {"DEVICE_DISCOVERY_STRATEGY"}, {kPlugin, kDiscovery}),
       key("flags.namedResources", kText, kUnused, "", "[]", "key of a fork; use names in an entry instead"),
       key("flags.mpsMemoryLimiting", kText, kUnused, "", "true",
           "key of a fork; memory is limited unless memory is open")});
}

void add_program_flags(Rows& rows) {
  rows.insert(
      rows.end(),
      {section("flags.plugin", "Settings of the device plugin", KeyCase::kAny),
       flag<FIELD(flags.plugin.pass_device_specs)>("flags.plugin.passDeviceSpecs",
                                                   "also return device nodes to kubelet", {"pass-device-specs"},
                                                   {"PASS_DEVICE_SPECS"}),
       flag<FIELD(flags.plugin.device_list_strategy)>(
           "flags.plugin.deviceListStrategy", "how containers get devices; a single string is not split at commas",
           {"device-list-strategy"}, {"DEVICE_LIST_STRATEGY"}, {kPlugin}, kWordList, "cdi.md"),
       flag<FIELD(flags.plugin.device_id_strategy)>("flags.plugin.deviceIDStrategy",
                                                    "how devices are identified to containers", {"device-id-strategy"},
                                                    {"DEVICE_ID_STRATEGY"}),
       flag<FIELD(flags.plugin.cdi_annotation_prefix)>("flags.plugin.cdiAnnotationPrefix", "prefix of CDI annotations",
                                                       {"cdi-annotation-prefix"}, {"CDI_ANNOTATION_PREFIX"}, {kPlugin},
                                                       kText, "cdi.md"),
       flag<FIELD(flags.plugin.nvidia_ctk_path)>("flags.plugin.nvidiaCTKPath", "hook program written into CDI specs",
                                                 {"nvidia-cdi-hook-path", "nvidia-ctk-path"},
                                                 {"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"}, {kPlugin}, kPath,
                                                 "cdi.md"),
       flag<FIELD(flags.plugin.container_driver_root)>(
           "flags.plugin.containerDriverRoot", "mount path of the driver root in Tranche's container",
           {"driver-root-ctr-path", "container-driver-root"}, {"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"},
           {kPlugin, kDiscovery}, kPath),
       flag<FIELD(flags.plugin.shared_devices_allocation_policy)>(
           "flags.plugin.sharedDevicesAllocationPolicy",
           "prefer the least used shared device (distributed) or the most used (packed)",
           {"shared-devices-allocation-policy"}, {"SHARED_DEVICES_ALLOCATION_POLICY"}),
       section("flags.gfd", "Settings of GPU feature discovery", KeyCase::kAny),
       flag<FIELD(flags.gfd.oneshot)>("flags.gfd.oneshot", "label once and exit", {"oneshot"}, {"GFD_ONESHOT"},
                                      {kDiscovery}),
       flag<FIELD(flags.gfd.no_timestamp)>("flags.gfd.noTimestamp", "omit the timestamp label", {"no-timestamp"},
                                           {"GFD_NO_TIMESTAMP"}, {kDiscovery}),
       flag<FIELD(flags.gfd.sleep_interval)>(
           "flags.gfd.sleepInterval",
           "labelling interval, or infinite; in a file, a number without a unit is nanoseconds", {"sleep-interval"},
           {"GFD_SLEEP_INTERVAL"}, {kDiscovery}),
       flag<FIELD(flags.gfd.output_file)>("flags.gfd.outputFile", "file for the labels; empty: standard output",
                                          {"output-file", "output", "o"}, {"GFD_OUTPUT_FILE"}, {kDiscovery}, kPath),
       flag<FIELD(flags.gfd.machine_type_file)>("flags.gfd.machineTypeFile", "file with the machine model",
                                                {"machine-type-file"}, {"GFD_MACHINE_TYPE_FILE"}, {kDiscovery}, kPath),
       section("resources", "Checked and not used, as in NVIDIA's programs", KeyCase::kAny, kUnused)});
  for (const std::string list : {"resources.gpus", "resources.mig"}) {
    rows.push_back(key(list, kSections, kUnused, "", R"([{pattern: "*", name: gpu}])", "rules for naming resources"));
    rows.push_back(key(list + "[].pattern", kText, kUnused, "", R"("*")", "pattern for a model or profile"));
    rows.push_back(key(list + "[].name", kText, kUnused, "", "gpu", "name of the resource"));
  }
}

constexpr std::string_view kShares = "../guide/share-sizes.md";

// Limits of a slot, in sharing.mps and in one of its entries.
void add_limit_keys(Rows& rows, const std::string& at, const std::string& usual, std::string_view threads,
                    std::string_view memory) {
  const std::vector<std::string_view> words{"equal", "open", "tenant"};
  rows.insert(rows.end(),
              {of_words(key(at + ".threads", kThreads, kOurs, usual, "{factor: 2}", threads, kShares), words),
               key(at + ".threads.factor", kFactor, kOurs, "", "2", "multiple of an equal share"),
               counted(key(at + ".threads.sms", kCount, kOurs, "", "16", "SMs per slot"), 1, 1024),
               of_words(key(at + ".memory", kMemory, kOurs, usual, "4Gi", memory, kShares), words),
               key(at + ".memory.factor", kFactor, kOurs, "", "1.5", "multiple of an equal share")});
}

// Keys common to sharing.timeSlicing and sharing.mps.
void add_section(Rows& rows, const std::string& at, std::string_view meaning, bool mps) {
  const std::string entry = at + ".resources[].";
  rows.insert(
      rows.end(),
      {section(at, meaning, KeyCase::kExact),
       key(at + ".renameByDefault", kSwitch, kNvidia, "false", "true", "advertise NAME.shared instead of NAME"),
       key(at + ".failRequestsGreaterThanOne", kSwitch, kNvidia, mps ? "true" : "false", "false",
           "a container may hold only one slot"),
       key(at + ".resources", kSections, kNvidia, "", "[{name: nvidia.com/gpu, replicas: 4}]",
           "resources to share; required"),
       key(entry + "name", kResource, kNvidia, "", "nvidia.com/gpu",
           "resource to share, required; the prefix nvidia.com/ is optional"),
       counted(key(entry + "replicas", kCount, kNvidia, "", "4",
                   mps ? "slots per device; required without slotMemory; 1: the whole GPU through MPS; above the MPS "
                         "server's client capacity: units, of which a container may hold several"
                       : "slots per device; required",
                   kShares),
               mps ? 1 : 2, kMostSlots),
       key(entry + "rename", kResource, kNvidia, "", "nvidia.com/gpu.shared",
           "advertised name; only with sharing.perDevice"),
       key(entry + "devices", kDevices, kNvidia, "all", "all", "devices of this entry; only with sharing.perDevice",
           "../guide/configure.md")});
}

void add_mps_entries(Rows& rows) {
  const std::string entry = "sharing.mps.resources[].";
  rows.insert(rows.end(),
              {key(entry + "slotMemory", kSize, kOurs, "", "4Gi",
                   "instead of replicas: as many slots of this size as fit in each GPU, minus the reserve", kShares),
               key(entry + "names", kNames, kOurs, "", R"("gpu%d")",
                   "one resource per GPU index (%d), slot size in GiB (%g) or model (%m)", kShares)});
  add_limit_keys(rows, "sharing.mps.resources[]", "", "sharing.mps.threads for this resource",
                 "sharing.mps.memory for this resource");
  rows.insert(rows.end(),
              {of_words(key(entry + "split", kWord, kOurs, "", "span",
                            "sharing.mps.split for this resource; span for names with %d"),
                        enum_names<SplitPolicy>()),
               section(entry + "guard", "Guard settings of this resource", KeyCase::kExact, kOurs),
               of_words(key(entry + "guard.memory", kWord, kOurs, "", "observe",
                            "sharing.mps.guard.memory for this resource", "../internals/guard.md"),
                        enum_names<GuardMemory>()),
               counted(key(entry + "memoryGB", kCount, kFork, "", "4", "memory per slot in GiB"), 1, 1'000'000)});
}

void add_mps(Rows& rows) {
  constexpr std::string_view kContract = "../internals/mps-contract.md";
  constexpr std::string_view kGuard = "../internals/guard.md";
  constexpr std::uint32_t kLeastPatience = 100, kMostPatience = 60'000, kLeastInterval = 50, kMostInterval = 10'000;
  const std::size_t first = rows.size();
  add_limit_keys(rows, "sharing.mps", "equal", "SM limit per slot; an entry's value takes precedence",
                 "memory limit per slot; an entry's value takes precedence");
  for (Key& row : rows | std::views::drop(first)) {
    if (row.type == kThreads) row = of<FIELD(sharing.threads)>(std::move(row));
    if (row.type == kMemory) row = of<FIELD(sharing.memory)>(std::move(row));
  }
  rows.insert(
      rows.end(),
      {of_words(own<FIELD(sharing.reserve)>("sharing.mps.reserve",
                                            "memory of each GPU to keep free before the rest is divided", kShares),
                {"none", "auto"}),
       of_words(key("sharing.mps.split", kWord, kOurs, "reject", "span",
                    "containers with slots on several GPUs; span for names with %d", kShares),
                enum_names<SplitPolicy>()),
       own<FIELD(sharing.compute_mode)>(
           "sharing.mps.computeMode",
           "compute mode of a GPU that MPS shares; with leave, processes that bypass MPS have no limit"),
       of<FIELD(sharing.proof_every)>({.path = "sharing.mps.proofEvery",
                                       .type = kProof,
                                       .origin = kOurs,
                                       .meaning = "interval of test CUDA starts through each pool's daemon; 0: none",
                                       .see = kContract}),
       own<FIELD(sharing.sm_rounding)>("sharing.mps.smRounding",
                                       "rounding of SM counts that are known to give wrong results", kShares),
       own<FIELD(sharing.endpoint)>(
           "sharing.mps.endpoint",
           "a container's MPS endpoint: Tranche's socket, which refuses control commands (relay), or a hard "
           "link to the daemon's, by which root in a container can control the daemon (link)",
           kContract),
       counted(own<FIELD(sharing.max_clients)>("sharing.mps.maxClients",
                                               "client capacity of an MPS server; default: the driver's limit"),
               1, kMostClients),
       counted(own<FIELD(sharing.processes_per_slot)>("sharing.mps.processesPerSlot",
                                                      "CUDA processes per slot; times replicas at most maxClients"),
               1, kMostClients),
       own<FIELD(sharing.mig_devices)>("sharing.mps.migDevices", "also share MIG devices by MPS", kShares),
       counted(own<FIELD(sharing.stop_patience)>(
                   "sharing.mps.stopPatience",
                   "time for a stopped client's queued GPU work before it is killed, 100ms to 60s",
                   "../guide/stop-and-change.md"),
               kLeastPatience, kMostPatience),
       own<FIELD(sharing.framework_environment)>(
           "sharing.mps.frameworkEnvironment",
           "set variables in containers that keep JAX and TensorFlow within the limits", "../guide/frameworks.md"),
       key("sharing.mps.enableMemoryLimit", kSwitch, kFork, "true", "true", "false means memory: open"),
       section("sharing.mps.guard", "Settings of the memory guard", KeyCase::kExact, kOurs),
       counted(
           own<FIELD(sharing.guard.interval)>("sharing.mps.guard.interval", "sampling interval, 50ms to 10s", kGuard),
           kLeastInterval, kMostInterval),
       own<FIELD(sharing.guard.memory)>("sharing.mps.guard.memory",
                                        "action when a grant's processes together exceed its memory limit", kGuard),
       own<FIELD(sharing.guard.foreign_processes)>(
           "sharing.mps.guard.foreignProcesses",
           "action on container processes on a shared GPU that are not MPS clients", kGuard)});
}

void add_individual(Rows& rows) {
  const std::string gpu = "individualGPU.gpuConfigs[].";
  const std::string mps = gpu + "mps.";
  rows.insert(
      rows.end(),
      {section("individualGPU", "A fork's form of one resource per GPU", KeyCase::kExact, kFork),
       key("individualGPU.enabled", kSwitch, kFork, "false", "false", "whether the section applies"),
       key("individualGPU.namePattern", kNames, kFork, "gpu%d", R"("gpu%d")", "names of the resources"),
       key("individualGPU.gpuConfigs", kSections, kFork, "", "[{index: 0, mps: {enabled: true, replicas: 20}}]",
           "one entry per GPU"),
       key(gpu + "index", kIndex, kFork, "", "0", "index of the GPU"),
       key(gpu + "uuid", kText, kFork, "", "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76", "UUID of the GPU"),
       key(gpu + "name", kResource, kFork, "", "gpu0", "name of its resource"),
       section(gpu + "mps", "How MPS shares it", KeyCase::kExact, kFork),
       key(mps + "enabled", kSwitch, kFork, "false", "true", "whether MPS shares it"),
       counted(key(mps + "replicas", kCount, kFork, "1", "20", "slots"), 1, kMostSlots),
       key(mps + "enableMemoryLimit", kSwitch, kFork, "true", "true", "false means memory: open"),
       counted(key(mps + "pinnedMemoryLimit", kCount, kFork, "", "1024", "memory per slot in MiB"), 1, 1'000'000'000),
       key(mps + "activeThreadPercentage", kText, kUnused, "", "10",
           "no effect in the fork either; use threads in an entry of sharing.mps.resources"),
       key(mps + "activeThreadLimit", kText, kUnused, "", "10", "as activeThreadPercentage")});
}

Rows make_rows() {
  Rows rows{section("", "The file", KeyCase::kAny),
            of_words(key("version", kWord, kNvidia, "v1", "v1", "schema version"), {"v1"})};
  add_flags(rows);
  add_program_flags(rows);
  rows.push_back(section("sharing", "How GPUs are shared", KeyCase::kAny));
  rows.push_back(key("sharing.perDevice", kSwitch, kOurs, "false", "true",
                     "use devices and rename of each entry, and timeSlicing and mps side by side",
                     "../guide/configure.md"));
  add_section(rows, "sharing.timeSlicing", "Sharing by time-slicing, without memory protection", false);
  add_section(rows, "sharing.mps", "Sharing by MPS; takes precedence over timeSlicing unless perDevice is set", true);
  add_mps_entries(rows);
  add_mps(rows);
  rows.insert(
      rows.end(),
      {section("devices", "GPUs that the node uses", KeyCase::kExact, kOurs),
       of<FIELD(devices.include)>({.path = "devices.include",
                                   .origin = kOurs,
                                   .sample = R"([0, "NVIDIA H200*"])",
                                   .meaning = "use only these GPUs"}),
       of<FIELD(devices.exclude)>({.path = "devices.exclude",
                                   .origin = kOurs,
                                   .sample = "[1]",
                                   .meaning = "do not use these GPUs, even if included"}),
       section("dra", "Dynamic Resource Allocation (experimental)", KeyCase::kExact, kOurs),
       of_words(own<FIELD(dra)>("dra.devices",
                                "GPUs offered through Dynamic Resource Allocation; the device plugin offers the others",
                                "../guide/dra.md"),
                enum_names<DraDevices>()),
       of<FIELD(dra.driver_name)>(
           {.path = "dra.driverName",
            .type = kDriver,
            .origin = kOurs,
            .meaning = "name of the DRA driver in device classes, selectors and opaque configurations",
            .see = "../guide/dra.md",
            .most = 63}),
       own<FIELD(dra.split)>("dra.split",
                             "requests of a claim with devices of several GPUs: its claim is not prepared (reject), or "
                             "all GPUs of the node are one MPS pool (span)",
                             "../guide/dra.md"),
       own<FIELD(dra.partitions)>(
           "dra.partitions",
           "GPUs in MIG mode: claims get their present MIG devices (static), or instances that are "
           "made when a claim is prepared (onDemand)",
           "../guide/dra.md#partitions-on-demand"),
       section("imex", "IMEX channels", KeyCase::kAny),
       flag<FIELD(imex)>("imex.channelIDs", "IMEX channels to give to containers", {"imex-channel-ids"},
                         {"IMEX_CHANNEL_IDS"}),
       flag<FIELD(imex.required)>("imex.required", "whether a missing channel is an error", {"imex-required"},
                                  {"IMEX_REQUIRED"})});
  add_individual(rows);
  return rows;
}

}  // namespace

std::span<const Key> keys() {
  static const Rows rows = make_rows();
  return rows;
}

std::span<const Key> keyless_settings() {
  static const Rows rows{
      flag<FIELD(run.kubelet_socket)>("kubeletSocket", "kubelet's registration socket; empty means do not register",
                                      {"kubelet-socket"}, {"KUBELET_SOCKET"}),
      {.path = std::string(kConfigFile),
       .meaning = "configuration file",
       .programs = {kPlugin, kDiscovery, Program::kMpsControlDaemon},
       .flags = {"config-file"},
       .variables = {"CONFIG_FILE", "GFD_CONFIG_FILE"}},
      flag<FIELD(run.cdi_feature_flags)>("cdiFeatureFlags", "features of CDI specs to enable", {"cdi-feature-flags"},
                                         {"CDI_FEATURE_FLAGS"}),
      flag<FIELD(run.cdi_disable_hooks)>("cdiDisableHooks", "hooks to leave out of CDI specs, or all",
                                         {"cdi-disable-hooks"}, {"CDI_DISABLE_HOOKS"})};
  return rows;
}

std::span<const Key> settings_of(Program program) {
  static const auto make = [](Program of) {
    Rows rows;
    for (const auto& table : {keys(), keyless_settings()})
      for (const Key& key : table)
        if (std::ranges::find(key.programs, of) != key.programs.end()) rows.push_back(key);
    const auto discovery = [](std::string_view name) { return name.starts_with("GFD_"); };
    for (Key& row : rows) {
      std::ranges::stable_partition(row.variables, discovery);
      if (of != kDiscovery) std::erase_if(row.variables, discovery);
    }
    return rows;
  };
  static const Rows settings[] = {make(kPlugin), make(kDiscovery), make(Program::kMpsControlDaemon)};
  return settings[static_cast<std::size_t>(program)];
}

std::string help_of(const Key& setting) {
  const bool named = setting.words.empty() || setting.meaning.contains(setting.words.front());
  return std::string(setting.meaning) + (named ? "" : ": " + text_of_all(setting.words));
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
  const std::string section = without_indices(path);
  std::vector<std::string_view> names;
  for (const Key& row : keys())
    if (!row.path.empty() && row.section() == section) names.push_back(row.name());
  return names;
}

KeyCase key_case_below(std::string_view path) {
  std::string section = without_indices(path);
  if (section.ends_with("[]")) section.resize(section.size() - 2);
  const auto row = std::ranges::find(keys(), std::string_view(section), &Key::path);
  return row == keys().end() ? KeyCase::kExact : row->below;
}

}  // namespace tranche::config
