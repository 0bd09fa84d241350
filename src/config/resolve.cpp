#include "config/resolve.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "config/words.h"

namespace tranche::config {
namespace {

// A value that a flag or a variable gives.
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

std::optional<bool> parse_switch(std::string_view text) {
  for (const char* word : {"1", "t", "T", "true", "True", "TRUE"})
    if (text == word) return true;
  for (const char* word : {"0", "f", "F", "false", "False", "FALSE"})
    if (text == word) return false;
  return std::nullopt;
}

std::vector<std::string> split_lists(const std::vector<std::string>& values) {
  std::vector<std::string> pieces;
  for (const std::string& value : values)
    for (const std::string_view piece : split(value, ',')) pieces.emplace_back(trimmed(piece));
  return pieces;
}

// NVIDIA's order of validation, which decides what is said first.
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

  // The text given, brought into the form of its kind; false when it does not count as given.
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
      given.values = {"false"};  // NVIDIA's rule: FAIL_ON_INIT_ERROR="" turns it off
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

  // What the file got wrong in a word that a flag or variable has replaced is no Problem any more.
  void judge() {
    for (const Problem& problem : file_.problems) {
      const auto voided =
          problem.severity == Severity::kError && file_.bad_words.contains(problem.path) &&
          std::ranges::any_of(taken_, [&](const auto& taken) { return problem.path.starts_with(taken.first); });
      if (!voided) problems_.push_back(problem);
    }
    const Flags& flags = target_.config.flags;
    if (target_.config.sharing.strategy == SharingStrategy::kMps && flags.mig_strategy == MigStrategy::kMixed)
      judgements_.push_back({rank_of("sharing.mps"),
                             {Severity::kError, place_of("flags.migStrategy"), "flags.migStrategy",
                              "is mixed, which does not go with sharing.mps",
                              "write migStrategy: none, or share with sharing.timeSlicing"}});
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

  // Settings of the file that are no flags of this program.
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
    const Sharing& sharing = target_.config.sharing;
    const auto add_row = [&](const std::string& key, std::string value) {
      const std::string section = sharing.strategy == SharingStrategy::kMps ? "sharing.mps." : "sharing.timeSlicing.";
      explained_.push_back(explain_one(section + key, std::move(value)));
    };
    if (sharing.strategy == SharingStrategy::kNone) return;
    add_row("renameByDefault", sharing.rename_by_default ? "true" : "false");
    add_row("failRequestsGreaterThanOne", sharing.fail_requests_greater_than_one ? "true" : "false");
    for (const SharedResource& resource : sharing.resources) {
      add_row("resources", resource.name + " in " + std::to_string(resource.replicas));
      explained_.back().source = Source::kFile;
      explained_.back().where = to_string(resource.place);
    }
    if (sharing.strategy != SharingStrategy::kMps) return;
    add_row("computeMode", std::string(to_string(sharing.compute_mode)));
    add_row("smRounding", std::string(to_string(sharing.sm_rounding)));
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
