#include "check/mig_profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json_text.h"
#include "base/terminal_text.h"
#include "check/checks.h"
#include "plan/devices.h"

namespace tranche::check {
namespace {

bool cut_alike(const MigChoice& a, const MigChoice& b) {
  return a.name == b.name && a.capable == b.capable && a.enabled == b.enabled && a.profiles == b.profiles &&
         a.why == b.why;
}

void write_alike(const MigChoice& first, const std::vector<std::uint32_t>& indices, TerminalText& out) {
  const char* const state = !first.capable ? "cannot be cut by MIG" : first.enabled ? "MIG on" : "MIG off";
  out.heading(fmt::format("{}  {}  {}", plan::list_of(indices), first.name, state));
  if (!first.why.empty()) out.line(first.why);
  if (first.profiles.empty()) return;
  std::vector<TerminalText::Row> rows{{"PROFILE", "MEMORY", "SLICES", "SMS", "AT MOST", "RESOURCE"}};
  for (const auto& profile : first.profiles)
    rows.push_back({profile.name, to_string(profile.memory), std::to_string(profile.slices),
                    std::to_string(profile.sm_count), std::to_string(profile.at_most),
                    plan::mig_resource(profile.name)});
  out.table(rows);
}

}  // namespace

Result<std::vector<MigChoice>> mig_choices(const CheckOptions& options) {
  TRY(const auto nvml, host::Nvml::open(driver_settings(options)));
  TRY(const auto node, nvml->scan());
  std::vector<MigChoice> choices;
  for (const auto& gpu : node.gpus) {
    MigChoice choice{gpu.index, gpu.uuid, gpu.name, gpu.mig_capable, gpu.mig_enabled, {}, {}};
    if (gpu.mig_capable) {
      auto profiles = nvml->mig_profiles(gpu.uuid);
      if (!profiles) {
        choice.why = to_string(profiles.error());
      } else if (profiles->empty()) {
        choice.why = "the driver lists no profiles; one older than 550 does so only while MIG is on";
      } else {
        choice.profiles = *std::move(profiles);
        std::ranges::sort(choice.profiles, {},
                          [](const host::MigProfile& p) { return std::tie(p.slices, p.memory, p.name); });
      }
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::string choices_text(const std::vector<MigChoice>& choices, bool colour) {
  TerminalText out(colour, 110);
  if (choices.empty()) out.line("the driver knows no GPU");
  std::vector<bool> written(choices.size());
  bool any = false;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (written[i]) continue;
    std::vector<std::uint32_t> indices;
    for (std::size_t j = i; j < choices.size(); ++j) {
      if (!cut_alike(choices[i], choices[j])) continue;
      written[j] = true;
      indices.push_back(choices[j].index);
    }
    write_alike(choices[i], indices, out);
    any = any || !choices[i].profiles.empty();
  }
  if (any) {
    out.heading("How to read it");
    out.line("AT MOST counts instances of one profile alone.");
    out.line("RESOURCE is what pods ask for under migStrategy: mixed; under single it is nvidia.com/gpu.");
  }
  return out.take();
}

std::string choices_json(const std::vector<MigChoice>& choices) {
  using Json = nlohmann::ordered_json;
  Json array = Json::array();
  for (const auto& choice : choices) {
    Json profiles = Json::array();
    for (const auto& profile : choice.profiles)
      profiles.push_back({{"profile", profile.name},
                          {"resource", plan::mig_resource(profile.name)},
                          {"memoryBytes", profile.memory.value},
                          {"slices", profile.slices},
                          {"smCount", profile.sm_count},
                          {"atMost", profile.at_most}});
    array.push_back({{"index", choice.index},
                     {"uuid", choice.uuid},
                     {"name", choice.name},
                     {"migCapable", choice.capable},
                     {"migEnabled", choice.enabled},
                     {"profiles", std::move(profiles)},
                     {"why", choice.why}});
  }
  return json_text(array, 2) + "\n";
}

}  // namespace tranche::check
