#pragma once
// The flags and variables of the programs that Tranche replaces, as one table: spelling, variables, defaults and
// targets. cli/ builds its options from it, resolve() applies it, docs/reference/configuration.md is generated from it.
// Pure.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/model.h"

namespace tranche::config {

// The program whose command line is used. `tranche node` uses the device plugin's.
enum class Program { kDevicePlugin, kFeatureDiscovery, kMpsControlDaemon };

enum class SettingKind { kText, kSwitch, kTextList, kNumberList, kDuration };

// Settings of the device plugin without a key in the file.
struct PluginRun {
  std::string kubelet_socket = "/var/lib/kubelet/device-plugins/kubelet.sock";  // "" = do not register
  std::vector<std::string> cdi_feature_flags;
  std::vector<std::string> cdi_disable_hooks;
  friend bool operator==(const PluginRun&, const PluginRun&) = default;
};

struct Target {
  Config config;
  PluginRun run;
};

struct Setting {
  std::string_view path;  // of the key in the file, or a name for a setting without one
  SettingKind kind = SettingKind::kText;
  std::vector<std::string_view> flags;      // without dashes; the first is the usual one
  std::vector<std::string_view> variables;  // the first that exists applies
  std::string_view help;
  // Assigns the given values: one for text and switches ("true", "false"), any number for lists. Returns the error, or
  // "".
  std::string (*assign)(Target&, const std::vector<std::string>&) = nullptr;
  std::string (*show)(const Target&) = nullptr;  // the effective value, for people
};

std::span<const Setting> settings_of(Program program);

inline constexpr std::string_view kConfigFile = "configFile";  // path of the setting that names the file itself

}  // namespace tranche::config
