#include "config/resolve.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "config/document/amounts.h"
#include "config/document/duration.h"
#include "config/enum_text.h"

namespace tranche::config {
namespace {

// A value from a flag or a variable.
struct Given {
  Source source = Source::kFlag;
  std::string where;
  std::vector<std::string> values;
};

std::optional<Given> given_by(const Setting& setting, const GivenFlags& flags, const Environment& environment) {
  for (const std::string_view flag : setting.flags)
    if (const auto found = flags.find(flag); found != flags.end())
      return Given{Source::kFlag, (flag.size() == 1 ? "-" : "--") + std::string(flag), found->second};
  for (const std::string_view variable : setting.variables)
    if (const auto found = environment.find(variable); found != environment.end())
      return Given{Source::kVariable, "$" + std::string(variable), {found->second}};
  return std::nullopt;
}

std::vector<std::string> split_lists(const std::vector<std::string>& values) {
  std::vector<std::string> pieces;
  for (const std::string& value : values)
    for (const std::string_view piece : split(value, ',')) pieces.emplace_back(trimmed(piece));
  return pieces;
}

// NVIDIA's order of validation, which determines the order of messages.
int rank_of(std::string_view path) {
  static constexpr std::array<std::string_view, 7> kOrder{"flags.plugin.deviceListStrategy",
                                                          "flags.plugin.deviceIDStrategy",
                                                          "flags.plugin.sharedDevicesAllocationPolicy",
                                                          "sharing.mps",
                                                          "flags.deviceDiscoveryStrategy",
                                                          "flags.migStrategy",
                                                          "imex.channelIDs"};
  const auto found = std::ranges::find(kOrder, path);
  return static_cast<int>(found - kOrder.begin());
}

std::string text_of(const std::vector<DeviceRef>& refs) {
  std::vector<std::string> parts;
  for (const DeviceRef& ref : refs) parts.push_back(ref.text);
  return join(parts, ", ");
}

// "nvidia.com/gpu in 20", and further properties of this entry.
std::string text_of(const Sharing& sharing, const SharedResource& entry) {
  std::string text = entry.name + " in ";
  text += entry.slot_memory ? "slots of " + render_memory_size(*entry.slot_memory) : std::to_string(entry.replicas);
  if (const auto* refs = std::get_if<std::vector<DeviceRef>>(&entry.devices)) text += ", devices " + text_of(*refs);
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

class Resolution {
 public:
  Resolution(const Parsed& file, Program program, const GivenFlags& flags, const Environment& environment)
      : file_(file), program_(program), flags_(flags), environment_(environment) {
    target_.config = file.config;
  }

  Resolved run() {
    for (const Setting& setting : settings_of(program_))
      if (setting.assign != nullptr) settle(setting);
    judge();
    fill_in();
    explain();
    Resolved out{std::move(target_.config), std::move(target_.run), std::move(problems_), std::move(explained_)};
    std::ranges::stable_sort(judgements_, {}, &Judgement::rank);
    for (Judgement& judgement : judgements_) out.problems.push_back(std::move(judgement.problem));
    return out;
  }

 private:
  struct Judgement {
    int rank = 0;
    Problem problem;
  };

  void settle(const Setting& setting) {
    auto given = given_by(setting, flags_, environment_);
    if (!given || !make_values(setting, *given)) return;
    if (auto wrong = setting.assign(target_, given->values); !wrong.empty())
      add(setting.path, given->where, std::move(wrong));
    taken_.insert_or_assign(std::string(setting.path), *std::move(given));
  }

  // Converts the given text to its kind; false if it does not count as given.
  bool make_values(const Setting& setting, Given& given) {
    const bool empty = given.values.empty() || (given.values.size() == 1 && given.values.front().empty());
    switch (setting.kind) {
      case SettingKind::kText:
        if (given.values.empty()) given.values = {""};
        return true;
      case SettingKind::kSwitch:
        return make_switch(setting, given, empty);
      case SettingKind::kTextList:
        given.values = empty ? std::vector<std::string>{""} : split_lists(given.values);
        return true;
      case SettingKind::kNumberList:
        if (empty && given.source == Source::kVariable) return false;
        given.values = split_lists(given.values);
        return true;
      case SettingKind::kDuration:
        return !(empty && given.source == Source::kVariable);
    }
    return false;
  }

  bool make_switch(const Setting& setting, Given& given, bool empty) {
    if (empty && given.source == Source::kVariable) {
      given.values = {"false"};  // NVIDIA's rule: FAIL_ON_INIT_ERROR="" disables it
      return true;
    }
    const std::string text = given.values.empty() ? "true" : given.values.back();
    const auto value = parse_switch(text);
    if (!value) {
      add(setting.path, given.where, "must be true or false, but is " + in_quotes(text));
      return false;
    }
    given.values = {*value ? "true" : "false"};
    return true;
  }

  void add(std::string_view path, std::string where, std::string what, std::string remedy = {}) {
    if (remedy.empty()) remedy = "change " + where + ", or leave it out to get the file's value or the default";
    judgements_.push_back(
        {rank_of(path),
         {Severity::kError, {std::move(where), 0, 0}, std::string(path), std::move(what), std::move(remedy)}});
  }

  // Drops the Problem of an invalid word in the file that a flag or variable has replaced.
  void judge() {
    for (const Problem& problem : file_.problems) {
      const auto voided =
          problem.severity == Severity::kError && file_.bad_words.contains(problem.path) &&
          std::ranges::any_of(taken_, [&](const auto& taken) { return problem.path.starts_with(taken.first); });
      if (!voided) problems_.push_back(problem);
    }
    const Flags& flags = target_.config.flags;
    const Sharing& sharing = target_.config.sharing;
    if (sharing.strategy == SharingStrategy::kMps && flags.mig_strategy == MigStrategy::kMixed &&
        !sharing.mig_devices && !sharing.per_device)
      judgements_.push_back({rank_of("sharing.mps"),
                             {Severity::kError, place_of("flags.migStrategy"), "flags.migStrategy",
                              "is mixed, which does not go with sharing.mps",
                              "write migStrategy: none, share with sharing.timeSlicing, or have MPS serve MIG devices "
                              "as well (sharing.mps.migDevices: true)"}});
    if (program_ != Program::kFeatureDiscovery && flags.device_discovery_strategy == DiscoveryStrategy::kVfio)
      judgements_.push_back(
          {rank_of("flags.deviceDiscoveryStrategy"),
           {Severity::kError, place_of("flags.deviceDiscoveryStrategy"), "flags.deviceDiscoveryStrategy",
            "is vfio, which only labels nodes and serves no devices", "write auto, nvml or tegra"}});
  }

  void fill_in() {
    Flags& flags = target_.config.flags;
    if (flags.nvidia_dev_root.empty()) {
      flags.nvidia_dev_root = flags.nvidia_driver_root;
      filled_dev_root_ = true;
    }
    if (flags.mps_root.empty() && target_.config.sharing.strategy == SharingStrategy::kMps) {
      flags.mps_root = kDefaultMpsRoot;
      filled_mps_root_ = true;
    }
  }

  Place place_of(std::string_view path) const {
    if (const auto found = taken_.find(path); found != taken_.end()) return {found->second.where, 0, 0};
    if (const auto found = file_.given.find(std::string(path)); found != file_.given.end()) return found->second;
    return {};
  }

  Explained explain_one(std::string_view path, std::string value) const {
    Explained row{std::string(path), std::move(value), Source::kDefault, "default"};
    if (const auto taken = taken_.find(path); taken != taken_.end()) {
      row.source = taken->second.source;
      row.where = taken->second.where;
    } else if (const auto found = file_.given.find(std::string(path)); found != file_.given.end()) {
      row.source = Source::kFile;
      row.where = to_string(found->second);
    }
    if (path == "flags.nvidiaDevRoot" && filled_dev_root_) row.where = "as flags.nvidiaDriverRoot";
    if (path == "flags.mpsRoot" && filled_mps_root_) row = {row.path, row.value, Source::kDefault, "default under MPS"};
    return row;
  }

  // Settings of the file that are not flags of this program.
  void explain_what_files_say() {
    for (const Program other : {Program::kDevicePlugin, Program::kFeatureDiscovery})
      for (const Setting& setting : settings_of(other)) {
        const bool in_file = setting.show != nullptr && setting.path.find('.') != std::string_view::npos;
        if (in_file && std::ranges::find(explained_, setting.path, &Explained::path) == explained_.end())
          explained_.push_back(explain_one(setting.path, setting.show(target_)));
      }
  }

  void explain() {
    for (const Setting& setting : settings_of(program_))
      if (setting.show != nullptr) explained_.push_back(explain_one(setting.path, setting.show(target_)));
    explain_what_files_say();
    explain_sharing();
  }

  void add_row(const std::string& path, std::string value) {
    explained_.push_back(explain_one(path, std::move(value)));
  }

  void explain_sharing() {
    const Config& config = target_.config;
    const Sharing& sharing = config.sharing;
    for (const auto& [path, refs] :
         {std::pair{"devices.include", &config.devices.include}, std::pair{"devices.exclude", &config.devices.exclude}})
      if (!refs->empty()) add_row(path, text_of(*refs));
    if (config.dra != Dra{}) {
      const bool listed = config.dra.devices == DraDevices::kListed;
      add_row("dra.devices", listed ? text_of(config.dra.listed) : std::string(to_string(config.dra.devices)));
      add_row("dra.driverName", config.dra.driver_name);
      add_row("dra.split", std::string(to_string(config.dra.split)));
      add_row("dra.partitions", std::string(to_string(config.dra.partitions)));
    }
    if (sharing.strategy == SharingStrategy::kNone) return;
    const std::string section = sharing.strategy == SharingStrategy::kMps ? "sharing.mps." : "sharing.timeSlicing.";
    add_row("sharing.perDevice", sharing.per_device ? "true" : "false");
    add_row(section + "renameByDefault", sharing.rename_by_default ? "true" : "false");
    add_row(section + "failRequestsGreaterThanOne", sharing.fail_requests_greater_than_one ? "true" : "false");
    for (const SharedResource& resource : sharing.resources) {
      add_row(strategy_of(config, resource) == SharingStrategy::kMps ? "sharing.mps.resources"
                                                                     : "sharing.timeSlicing.resources",
              text_of(sharing, resource));
      explained_.back().source = Source::kFile;
      explained_.back().where = to_string(resource.place);
    }
    if (sharing.strategy == SharingStrategy::kMps) explain_mps(sharing);
  }

  void explain_mps(const Sharing& sharing) {
    const auto row = [this](const char* key, std::string value) {
      add_row(std::string("sharing.mps.") + key, std::move(value));
    };
    row("threads", to_string(sharing.threads));
    row("memory", to_string(sharing.memory));
    row("reserve", to_string(sharing.reserve));
    row("computeMode", std::string(to_string(sharing.compute_mode)));
    row("smRounding", std::string(to_string(sharing.sm_rounding)));
    row("endpoint", std::string(to_string(sharing.endpoint)));
    row("guard.interval", render_duration(sharing.guard.interval));
    row("guard.memory", std::string(to_string(sharing.guard.memory)));
    row("guard.foreignProcesses", std::string(to_string(sharing.guard.foreign_processes)));
    row("proofEvery", render_duration(sharing.proof_every));
    row("maxClients", sharing.max_clients == 0 ? "as the driver takes" : std::to_string(sharing.max_clients));
    row("processesPerSlot", std::to_string(sharing.processes_per_slot));
    row("migDevices", sharing.mig_devices ? "true" : "false");
    row("stopPatience", render_duration(sharing.stop_patience));
    row("frameworkEnvironment", sharing.framework_environment ? "true" : "false");
  }

  const Parsed& file_;
  Program program_;
  const GivenFlags& flags_;
  const Environment& environment_;
  Target target_;
  std::map<std::string, Given, std::less<>> taken_;  // by path
  bool filled_dev_root_ = false;
  bool filled_mps_root_ = false;
  std::vector<Problem> problems_;
  std::vector<Judgement> judgements_;
  std::vector<Explained> explained_;
};

}  // namespace

Resolved resolve(const Parsed& file, Program program, const GivenFlags& flags, const Environment& environment) {
  return Resolution(file, program, flags, environment).run();
}

std::string config_file_of(Program program, const GivenFlags& flags, const Environment& environment) {
  for (const Setting& setting : settings_of(program)) {
    if (setting.path != kConfigFile) continue;
    const auto given = given_by(setting, flags, environment);
    return given && !given->values.empty() ? given->values.back() : "";
  }
  return "";
}

}  // namespace tranche::config
