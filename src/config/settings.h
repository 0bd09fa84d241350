#pragma once
// The flags and variables of the programs that Tranche replaces: those of the keys (config/keys.h), and a few without a
// key. cli/ builds its options from them, resolve() applies them. Pure.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys.h"
#include "config/model.h"

namespace tranche::config {

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

std::span<const Key> keyless_settings();  // without a key in the file: their paths have no dot
// What a program's command line has: rows of both, with the variables that this program reads, in their order.
std::span<const Key> settings_of(Program program);
std::string help_of(const Key& setting);

inline constexpr std::string_view kConfigFile = "configFile";  // path of the setting that names the file itself

}  // namespace tranche::config
