#include "cdi/feature_flags.h"

#include <algorithm>

#include "base/enum_names.h"
#include "base/text.h"

namespace tranche::cdi {
namespace {

// Most of them change something that Tranche's specs do not contain anyway.
constexpr std::string_view kExplicitLibraries = "enable-explicit-driver-libraries";
constexpr std::string_view kNoIpcSockets = "disable-ipc-discoverer";
constexpr std::string_view kAnnotations = "enable-coherent-annotations";
const std::vector<std::string_view> kFeatures{kExplicitLibraries,
                                              kNoIpcSockets,
                                              "disable-nvsandboxutils",               // that library is never used
                                              "disable-multiple-csv-devices",         // a Tegra system is one device
                                              "no-additional-gids-for-device-nodes",  // none are ever written
                                              kAnnotations};

Problem unknown(const char* flag, std::string_view word, const std::vector<std::string_view>& known) {
  const std::string meant = did_you_mean(word, known);
  std::vector<std::string> all(known.begin(), known.end());
  return warning_in(flag, "has the unknown word " + in_quotes(word),
                    meant.empty() ? "write one of " + join(all, ", ") : "did you mean " + meant + "?");
}

void read_flags(const std::vector<std::string>& given, Features& into) {
  constexpr const char* kFlag = "--cdi-feature-flags";
  for (const std::string& word : given) {
    if (std::ranges::find(kFeatures, word) == kFeatures.end()) into.problems.push_back(unknown(kFlag, word, kFeatures));
    if (word == kExplicitLibraries) into.explicit_driver_libraries = true;
    if (word == kNoIpcSockets) into.no_ipc_sockets = true;
    if (word == kAnnotations)
      into.problems.push_back(
          warning_in(kFlag, word + " has no effect: specs are written without annotations", "leave it out"));
  }
}

void read_hooks(const std::vector<std::string>& given, Features& into) {
  auto known = enum_names<HookName>();
  known.insert(known.begin(), "all");
  for (const std::string& word : given) {
    if (std::ranges::find(known, word) == known.end())
      into.problems.push_back(unknown("--cdi-disable-hooks", word, known));
    for (const auto name : known)
      if (const auto hook = enum_of<HookName>(name); hook && (word == name || word == "all"))
        into.disabled_hooks.insert(*hook);
  }
}

}  // namespace

Features read_features(const config::PluginRun& run) {
  Features read;
  read_flags(run.cdi_feature_flags, read);
  read_hooks(run.cdi_disable_hooks, read);
  return read;
}

}  // namespace tranche::cdi
