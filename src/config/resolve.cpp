#include "config/resolve.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "config/document/amounts.h"
#include "config/field.h"

namespace tranche::config {
namespace {

// A value from a flag or a variable.
struct Given {
  Source source = Source::kFlag;
  std::string where;
  GivenTexts texts;
};

std::optional<Given> given_by(const Key& setting, const Invocation& invocation) {
  for (const std::string_view flag : setting.flags)
    if (const auto found = invocation.flags.find(flag); found != invocation.flags.end())
      return Given{Source::kFlag, (flag.size() == 1 ? "-" : "--") + std::string(flag), {found->second}};
  for (const std::string_view variable : setting.variables)
    if (const auto found = invocation.environment.find(variable); found != invocation.environment.end())
      return Given{Source::kVariable, "$" + std::string(variable), {{found->second}, true}};
  return std::nullopt;
}

// NVIDIA's order of validation, which determines the order of messages.
std::ptrdiff_t rank_of(std::string_view path) {
  static constexpr std::array<std::string_view, 7> kOrder{"flags.plugin.deviceListStrategy",
                                                          "flags.plugin.deviceIDStrategy",
                                                          "flags.plugin.sharedDevicesAllocationPolicy",
                                                          "sharing.mps",
                                                          "flags.deviceDiscoveryStrategy",
                                                          "flags.migStrategy",
                                                          "imex.channelIDs"};
  return std::ranges::find(kOrder, path) - kOrder.begin();
}

// "nvidia.com/gpu in 20", and further properties of this entry.
std::string text_of(const Sharing& sharing, const SharedResource& entry) {
  std::string text = entry.name + " in ";
  text += entry.slot_memory ? "slots of " + render_memory_size(*entry.slot_memory) : std::to_string(entry.replicas);
  if (const auto* refs = std::get_if<std::vector<DeviceRef>>(&entry.devices))
    text += ", devices " + join(*refs, ", ", &DeviceRef::text);
  if (const auto* count = std::get_if<DeviceCount>(&entry.devices))
    text += ", " + std::to_string(count->count) + " devices";
  if (entry.rename) text += ", as " + *entry.rename;
  if (!entry.names.empty()) text += ", names " + entry.names;
  if (entry.strategy != SharingStrategy::kMps) return text;
  if (entry.threads != sharing.threads) text += ", threads " + to_string(entry.threads);
  if (entry.memory != sharing.memory) text += ", memory " + to_string(entry.memory);
  if (entry.split != SplitPolicy::kReject) text += ", split span";
  return text;
}

class Resolution : public Resolved {
 public:
  Resolution(const Parsed& file, Program program, const Invocation& invocation)
      : Resolved{file.config, {}, {}}, file_(file), program_(program), invocation_(invocation) {
    for (const Key& setting : settings_of(program_))
      if (setting.assign != nullptr) settle(setting);
    judge_together();
    fill_in();
    explain();
    for (auto& [rank, problem] : judgements_) problems.push_back(std::move(problem));
  }

 private:
  void settle(const Key& setting) {
    auto given = given_by(setting, invocation_);
    auto wrong = given ? setting.assign(config, given->texts) : std::nullopt;
    if (!wrong) return;
    if (!wrong->empty())
      judge(setting.path, setting.path, {given->where}, *std::move(wrong),
            "change " + given->where + ", or leave it out to get the file's value or the default");
    taken_.insert_or_assign(std::string(setting.path), *std::move(given));
  }

  void judge(std::string_view ranked_as, const std::string& path, Place place, std::string what, std::string remedy) {
    judgements_.emplace(rank_of(ranked_as),
                        Problem{Severity::kError, std::move(place), path, std::move(what), std::move(remedy)});
  }

  // Drops the Problem of an invalid word in the file that a flag or variable has replaced.
  void judge_together() {
    for (const Problem& problem : file_.problems) {
      const auto voided =
          problem.severity == Severity::kError && file_.bad_words.contains(problem.path) &&
          std::ranges::any_of(taken_, [&](const auto& taken) { return problem.path.starts_with(taken.first); });
      if (!voided) problems.push_back(problem);
    }
    const Flags& flags = config.flags;
    const Sharing& sharing = config.sharing;
    if (sharing.strategy == SharingStrategy::kMps && flags.mig_strategy == MigStrategy::kMixed &&
        !sharing.mig_devices && !sharing.per_device)
      judge("sharing.mps", "flags.migStrategy", place_of("flags.migStrategy"),
            "is mixed, which does not go with sharing.mps",
            "write migStrategy: none, share with sharing.timeSlicing, or have MPS serve MIG devices as well "
            "(sharing.mps.migDevices: true)");
    const char* discovery = "flags.deviceDiscoveryStrategy";
    if (program_ != Program::kFeatureDiscovery && flags.device_discovery_strategy == DiscoveryStrategy::kVfio)
      judge(discovery, discovery, place_of(discovery), "is vfio, which only labels nodes and serves no devices",
            "write auto, nvml or tegra");
  }

  void fill_in() {
    Flags& flags = config.flags;
    filled_dev_root_ = flags.nvidia_dev_root.empty();
    if (filled_dev_root_) flags.nvidia_dev_root = flags.nvidia_driver_root;
    filled_mps_root_ = flags.mps_root.empty() && config.sharing.strategy == SharingStrategy::kMps;
    if (filled_mps_root_) flags.mps_root = kDefaultMpsRoot;
  }

  Place place_of(std::string_view path) const {
    if (const auto found = taken_.find(path); found != taken_.end()) return {found->second.where, 0, 0};
    if (const auto found = file_.given.find(std::string(path)); found != file_.given.end()) return found->second;
    return {};
  }

  void add_row(std::string_view path, std::string value) {
    Explained& row = explained.emplace_back(std::string(path), std::move(value), Source::kDefault, "default");
    if (const auto taken = taken_.find(path); taken != taken_.end()) {
      row.source = taken->second.source;
      row.where = taken->second.where;
    } else if (const auto found = file_.given.find(std::string(path)); found != file_.given.end()) {
      row.source = Source::kFile;
      row.where = to_string(found->second);
    }
    if (path == "flags.nvidiaDevRoot" && filled_dev_root_) row.where = "as flags.nvidiaDriverRoot";
    if (path == "flags.mpsRoot" && filled_mps_root_) row = {row.path, row.value, Source::kDefault, "default under MPS"};
  }

  void explain() {
    for (const auto& table : {keys(), keyless_settings()})
      for (const Key& key : table) {
        if (!is_in_effect(key, config)) continue;
        if (!key.path.contains('.') && program_ != Program::kDevicePlugin) continue;
        const auto value = key.json(config);
        if (key.type != KeyType::kGpus || !value.is_null()) add_row(key.path, shown(value));
      }
    explain_sharing(config.sharing);
  }

  void explain_sharing(const Sharing& sharing) {
    if (sharing.strategy == SharingStrategy::kNone) return;
    const std::string section = sharing.strategy == SharingStrategy::kMps ? "sharing.mps." : "sharing.timeSlicing.";
    add_row("sharing.perDevice", sharing.per_device ? "true" : "false");
    add_row(section + "renameByDefault", sharing.rename_by_default ? "true" : "false");
    add_row(section + "failRequestsGreaterThanOne", sharing.fail_requests_greater_than_one ? "true" : "false");
    for (const SharedResource& resource : sharing.resources) {
      add_row(strategy_of(config, resource) == SharingStrategy::kMps ? "sharing.mps.resources"
                                                                     : "sharing.timeSlicing.resources",
              text_of(sharing, resource));
      explained.back().source = Source::kFile;
      explained.back().where = to_string(resource.place);
    }
  }

  const Parsed& file_;
  Program program_;
  const Invocation& invocation_;
  std::map<std::string, Given, std::less<>> taken_;  // by path
  bool filled_dev_root_ = false;
  bool filled_mps_root_ = false;
  std::multimap<std::ptrdiff_t, Problem> judgements_;  // by rank
};

}  // namespace

std::string variable(const Environment& environment, std::string_view name, std::string_view otherwise) {
  const auto at = environment.find(name);
  return at == environment.end() ? std::string(otherwise) : at->second;
}

std::optional<bool> parse_switch(std::string_view text) {
  for (const char* word : {"1", "t", "T", "true", "True", "TRUE"})
    if (text == word) return true;
  for (const char* word : {"0", "f", "F", "false", "False", "FALSE"})
    if (text == word) return false;
  return std::nullopt;
}

Resolved resolve(const Parsed& file, Program program, const Invocation& invocation) {
  return Resolution(file, program, invocation);
}

std::string config_file_of(Program program, const Invocation& invocation) {
  for (const Key& setting : settings_of(program)) {
    if (setting.path != kConfigFile) continue;
    const auto given = given_by(setting, invocation);
    return given && !given->texts.values.empty() ? given->texts.values.back() : "";
  }
  return "";
}

}  // namespace tranche::config
