#include "config/settings.h"

#include <algorithm>
#include <type_traits>

#include "base/problem.h"
#include "base/text.h"
#include "config/document/duration.h"
#include "config/document/scalar.h"
#include "config/enum_text.h"

namespace tranche::config {
namespace {

using Values = std::vector<std::string>;

std::string shown(const std::string& value) {
  return value;
}
std::string shown(bool value) {
  return value ? "true" : "false";
}
std::string shown(Duration value) {
  return render_duration(value);
}
std::string shown(const Values& value) {
  return join(value, ",");
}
std::string shown(const std::vector<int>& value) {
  Values parts;
  for (const int number : value) parts.push_back(std::to_string(number));
  return join(parts, ",");
}
std::string shown(const std::vector<ListStrategy>& value) {
  Values parts;
  for (const ListStrategy strategy : value) parts.emplace_back(to_string(strategy));
  return join(parts, ",");
}
template <class Enum>
  requires std::is_enum_v<Enum>
std::string shown(Enum value) {
  return std::string(to_string(value));
}

std::string assign_to(std::string& into, const Values& values) {
  into = values.back();
  return {};
}
std::string assign_to(bool& into, const Values& values) {
  into = values.back() == "true";
  return {};
}
std::string assign_to(Duration& into, const Values& values) {
  const auto duration = parse_duration(values.back());
  if (!duration) return "must be a duration with a unit, such as 60s, or infinite, but is " + in_quotes(values.back());
  into = *duration;
  return {};
}
std::string assign_to(Values& into, const Values& values) {
  into = values;
  std::erase(into, "");  // the result of an empty variable
  return {};
}
std::string assign_to(std::vector<int>& into, const Values& values) {
  std::vector<int> channels;
  for (const std::string& value : values) {
    const Scalar scalar = resolve_plain(value);
    const auto* number = std::get_if<std::int64_t>(&scalar);
    if (number == nullptr) return "must be whole numbers, but has " + in_quotes(value);
    if (*number != 0 || !channels.empty()) return "must be empty or the one channel 0";
    channels.push_back(0);
  }
  into = std::move(channels);
  return {};
}
std::string assign_to(std::vector<ListStrategy>& into, const Values& values) {
  std::vector<ListStrategy> strategies;
  for (const std::string& value : values) {
    const auto strategy = from_word(value, kListStrategies);
    if (!strategy) return "must be " + text_of_all(kListStrategies) + ", but has " + in_quotes(value);
    if (std::ranges::find(strategies, *strategy) == strategies.end()) strategies.push_back(*strategy);
  }
  into = std::move(strategies);
  return {};
}
template <class Enum, std::size_t N>
std::string assign_word(Enum& into, const Values& values, const std::array<Enum, N>& known) {
  const auto value = from_word(values.back(), known);
  if (!value) {
    std::vector<std::string_view> words;
    for (const Enum each : known) words.push_back(to_string(each));
    const std::string meant = did_you_mean(values.back(), words);
    return "must be " + text_of_all(known) + ", but is " + in_quotes(values.back()) +
           (meant.empty() ? "" : " (did you mean " + meant + "?)");
  }
  into = *value;
  return {};
}
std::string assign_to(MigStrategy& into, const Values& values) {
  return assign_word(into, values, kMigStrategies);
}
std::string assign_to(IdStrategy& into, const Values& values) {
  return assign_word(into, values, kIdStrategies);
}
std::string assign_to(AllocationPolicy& into, const Values& values) {
  return assign_word(into, values, kAllocationPolicies);
}
std::string assign_to(DiscoveryStrategy& into, const Values& values) {
  return assign_word(into, values, kDiscoveryStrategies);
}

// A row for the field that `Field` selects in a Target.
template <auto Field>
Setting row(std::string_view path, SettingKind kind, std::vector<std::string_view> flags,
            std::vector<std::string_view> variables, std::string_view help) {
  return {path,
          kind,
          std::move(flags),
          std::move(variables),
          help,
          [](Target& target, const Values& values) { return assign_to(Field(target), values); },
          [](const Target& target) { return shown(Field(target)); }};
}

constexpr auto kText = SettingKind::kText;
constexpr auto kSwitch = SettingKind::kSwitch;
constexpr auto kTextList = SettingKind::kTextList;

#define FIELD(expression) [](auto& t) -> auto& { return t.expression; }

Setting config_file_row(std::vector<std::string_view> variables) {
  return {kConfigFile, kText, {"config-file"}, std::move(variables), "configuration file", nullptr, nullptr};
}

std::vector<Setting> plugin_settings() {
  return {
      row<FIELD(config.flags.mig_strategy)>("flags.migStrategy", kText, {"mig-strategy"}, {"MIG_STRATEGY"},
                                            "how MIG devices are advertised: none, single or mixed"),
      row<FIELD(config.flags.fail_on_init_error)>("flags.failOnInitError", kSwitch, {"fail-on-init-error"},
                                                  {"FAIL_ON_INIT_ERROR"}, "treat a missing driver as an error"),
      row<FIELD(config.flags.nvidia_driver_root)>("flags.nvidiaDriverRoot", kText,
                                                  {"driver-root", "nvidia-driver-root"}, {"NVIDIA_DRIVER_ROOT"},
                                                  "root of the driver installation on the host"),
      row<FIELD(config.flags.nvidia_dev_root)>("flags.nvidiaDevRoot", kText, {"dev-root", "nvidia-dev-root"},
                                               {"NVIDIA_DEV_ROOT"},
                                               "root of the device nodes on the host; empty means the driver root"),
      row<FIELD(config.flags.plugin.pass_device_specs)>("flags.plugin.passDeviceSpecs", kSwitch, {"pass-device-specs"},
                                                        {"PASS_DEVICE_SPECS"}, "also return device nodes to kubelet"),
      row<FIELD(config.flags.plugin.device_list_strategy)>(
          "flags.plugin.deviceListStrategy", kTextList, {"device-list-strategy"}, {"DEVICE_LIST_STRATEGY"},
          "how devices are passed to containers: envvar, volume-mounts, cdi-annotations, cdi-cri"),
      row<FIELD(config.flags.plugin.device_id_strategy)>("flags.plugin.deviceIDStrategy", kText, {"device-id-strategy"},
                                                         {"DEVICE_ID_STRATEGY"},
                                                         "how devices are identified to containers: uuid or index"),
      row<FIELD(config.flags.gdrcopy_enabled)>("flags.gdrcopyEnabled", kSwitch, {"gdrcopy-enabled"},
                                               {"GDRCOPY_ENABLED"}, "give GDRCopy devices to containers"),
      row<FIELD(config.flags.gds_enabled)>("flags.gdsEnabled", kSwitch, {"gds-enabled"}, {"GDS_ENABLED"},
                                           "give GPUDirect Storage devices to containers"),
      row<FIELD(config.flags.mofed_enabled)>("flags.mofedEnabled", kSwitch, {"mofed-enabled"}, {"MOFED_ENABLED"},
                                             "give InfiniBand devices to containers"),
      row<FIELD(config.flags.plugin.cdi_annotation_prefix)>("flags.plugin.cdiAnnotationPrefix", kText,
                                                            {"cdi-annotation-prefix"}, {"CDI_ANNOTATION_PREFIX"},
                                                            "prefix of CDI annotations"),
      row<FIELD(config.flags.plugin.nvidia_ctk_path)>(
          "flags.plugin.nvidiaCTKPath", kText, {"nvidia-cdi-hook-path", "nvidia-ctk-path"},
          {"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"}, "hook program written into CDI specs"),
      row<FIELD(config.flags.plugin.container_driver_root)>(
          "flags.plugin.containerDriverRoot", kText, {"driver-root-ctr-path", "container-driver-root"},
          {"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"}, "where the driver root is mounted in this container"),
      row<FIELD(config.flags.mps_root)>("flags.mpsRoot", kText, {"mps-root"}, {"MPS_ROOT"},
                                        "host directory for MPS state"),
      row<FIELD(config.flags.plugin.shared_devices_allocation_policy)>(
          "flags.plugin.sharedDevicesAllocationPolicy", kText, {"shared-devices-allocation-policy"},
          {"SHARED_DEVICES_ALLOCATION_POLICY"},
          "which shared device to prefer: distributed (least used) or packed (most used)"),
      row<FIELD(config.flags.device_discovery_strategy)>("flags.deviceDiscoveryStrategy", kText,
                                                         {"device-discovery-strategy"}, {"DEVICE_DISCOVERY_STRATEGY"},
                                                         "how devices are found: auto, nvml or tegra"),
      row<FIELD(config.imex.channel_ids)>("imex.channelIDs", SettingKind::kNumberList, {"imex-channel-ids"},
                                          {"IMEX_CHANNEL_IDS"}, "IMEX channels to give to containers: none or 0"),
      row<FIELD(config.imex.required)>("imex.required", kSwitch, {"imex-required"}, {"IMEX_REQUIRED"},
                                       "treat a missing IMEX channel as an error"),
      row<FIELD(run.kubelet_socket)>("kubeletSocket", kText, {"kubelet-socket"}, {"KUBELET_SOCKET"},
                                     "kubelet's registration socket; empty means do not register"),
      config_file_row({"CONFIG_FILE"}),
      row<FIELD(run.cdi_feature_flags)>("cdiFeatureFlags", kTextList, {"cdi-feature-flags"}, {"CDI_FEATURE_FLAGS"},
                                        "features of CDI specs to enable"),
      row<FIELD(run.cdi_disable_hooks)>("cdiDisableHooks", kTextList, {"cdi-disable-hooks"}, {"CDI_DISABLE_HOOKS"},
                                        "hooks to leave out of CDI specs, or all"),
  };
}

std::vector<Setting> discovery_settings() {
  return {
      row<FIELD(config.flags.mig_strategy)>("flags.migStrategy", kText, {"mig-strategy"},
                                            {"GFD_MIG_STRATEGY", "MIG_STRATEGY"},
                                            "how MIG devices are labelled: none, single or mixed"),
      row<FIELD(config.flags.fail_on_init_error)>("flags.failOnInitError", kSwitch, {"fail-on-init-error"},
                                                  {"GFD_FAIL_ON_INIT_ERROR", "FAIL_ON_INIT_ERROR"},
                                                  "treat a missing driver as an error"),
      row<FIELD(config.flags.gfd.oneshot)>("flags.gfd.oneshot", kSwitch, {"oneshot"}, {"GFD_ONESHOT"},
                                           "label once and exit"),
      row<FIELD(config.flags.gfd.no_timestamp)>("flags.gfd.noTimestamp", kSwitch, {"no-timestamp"},
                                                {"GFD_NO_TIMESTAMP"}, "omit the timestamp label"),
      row<FIELD(config.flags.gfd.sleep_interval)>("flags.gfd.sleepInterval", SettingKind::kDuration, {"sleep-interval"},
                                                  {"GFD_SLEEP_INTERVAL"},
                                                  "interval between rounds of labelling, or infinite"),
      row<FIELD(config.flags.gfd.output_file)>("flags.gfd.outputFile", kText, {"output-file", "output", "o"},
                                               {"GFD_OUTPUT_FILE"}, "file for the labels; empty means standard output"),
      row<FIELD(config.flags.gfd.machine_type_file)>("flags.gfd.machineTypeFile", kText, {"machine-type-file"},
                                                     {"GFD_MACHINE_TYPE_FILE"}, "file that contains the machine model"),
      config_file_row({"GFD_CONFIG_FILE", "CONFIG_FILE"}),
      row<FIELD(config.flags.use_node_feature_api)>("flags.useNodeFeatureAPI", kSwitch, {"use-node-feature-api"},
                                                    {"GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"},
                                                    "publish labels through NodeFeature objects"),
      row<FIELD(config.flags.device_discovery_strategy)>("flags.deviceDiscoveryStrategy", kText,
                                                         {"device-discovery-strategy"}, {"DEVICE_DISCOVERY_STRATEGY"},
                                                         "how devices are found: auto, nvml, tegra or vfio"),
      row<FIELD(config.flags.plugin.container_driver_root)>(
          "flags.plugin.containerDriverRoot", kText, {"driver-root-ctr-path", "container-driver-root"},
          {"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"}, "where the driver root is mounted in this container"),
  };
}

std::vector<Setting> mps_settings() {
  return {
      row<FIELD(config.flags.mig_strategy)>("flags.migStrategy", kText, {"mig-strategy"}, {"MIG_STRATEGY"},
                                            "how MIG devices are advertised: none, single or mixed"),
      config_file_row({"CONFIG_FILE"}),
  };
}

#undef FIELD

}  // namespace

std::span<const Setting> settings_of(Program program) {
  static const std::vector<Setting> plugin = plugin_settings();
  static const std::vector<Setting> discovery = discovery_settings();
  static const std::vector<Setting> mps = mps_settings();
  switch (program) {
    case Program::kDevicePlugin:
      return plugin;
    case Program::kFeatureDiscovery:
      return discovery;
    case Program::kMpsControlDaemon:
      return mps;
  }
  return {};
}

}  // namespace tranche::config
