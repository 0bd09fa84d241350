#include "cdi/feature_flags.h"

#include <algorithm>
#include <array>

#include "base/enum_names.h"
#include "base/text.h"

namespace tranche::cdi {
namespace {

// The effect of a feature flag. Most of them change something that Tranche's specs do not contain anyway.
struct Feature {
  std::string_view word;
  void (*turn_on)(Features&);
  std::string_view no_effect;  // why the flag has no effect, if users may expect one
};
constexpr std::array<Feature, 6> kFeatures{{
    {"enable-explicit-driver-libraries", [](Features& f) { f.explicit_driver_libraries = true; }, ""},
    {"disable-ipc-discoverer", [](Features& f) { f.no_ipc_sockets = true; }, ""},
    {"disable-nvsandboxutils", [](Features&) {}, ""},               // that library is never used
    {"disable-multiple-csv-devices", [](Features&) {}, ""},         // a Tegra system is one device
    {"no-additional-gids-for-device-nodes", [](Features&) {}, ""},  // none are ever written
    {"enable-coherent-annotations", [](Features&) {}, "specs are written without annotations"},
}};

Problem unknown(const char* flag, std::string_view word, const std::vector<std::string_view>& known) {
  const std::string meant = did_you_mean(word, known);
  std::vector<std::string> all(known.begin(), known.end());
  return warning_in(flag, "has the unknown word " + in_quotes(word),
                    meant.empty() ? "write one of " + join(all, ", ") : "did you mean " + meant + "?");
}

void read_flags(const std::vector<std::string>& given, ReadFeatures& into) {
  constexpr const char* kFlag = "--cdi-feature-flags";
  std::vector<std::string_view> known;
  for (const auto& feature : kFeatures) known.push_back(feature.word);
  for (const std::string& word : given) {
    const auto found = std::ranges::find(kFeatures, std::string_view(word), &Feature::word);
    if (found == kFeatures.end()) {
      into.problems.push_back(unknown(kFlag, word, known));
      continue;
    }
    found->turn_on(into.features);
    if (!found->no_effect.empty())
      into.problems.push_back(
          warning_in(kFlag, word + " has no effect: " + std::string(found->no_effect), "leave it out"));
  }
}

void read_hooks(const std::vector<std::string>& given, ReadFeatures& into) {
  auto known = enum_names<HookName>();
  known.insert(known.begin(), "all");
  for (const std::string& word : given) {
    if (std::ranges::find(known, word) == known.end())
      into.problems.push_back(unknown("--cdi-disable-hooks", word, known));
    for (const auto name : known)
      if (const auto hook = enum_of<HookName>(name); hook && (word == name || word == "all"))
        into.features.disabled_hooks.insert(*hook);
  }
}

}  // namespace

ReadFeatures read_features(const config::PluginRun& run) {
  ReadFeatures read;
  read_flags(run.cdi_feature_flags, read);
  read_hooks(run.cdi_disable_hooks, read);
  return read;
}

}  // namespace tranche::cdi
