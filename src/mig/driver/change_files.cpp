#include "mig/driver/change_files.h"

#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "os/files/kept.h"

namespace tranche::host {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPrefix = "mig-";
constexpr std::string_view kSuffix = ".json";

std::string file_of(const std::string& gpu) {
  return std::string(kPrefix) + gpu + std::string(kSuffix);
}

Json to_json(const mig::Layout& layout) {
  Json instances = Json::array();
  for (const mig::Part& part : layout.parts) {
    Json compute = Json::array();
    for (const auto& at : part.compute) compute.push_back({{"start", at.start}, {"size", at.size}});
    instances.push_back({{"profileId", part.profile_id},
                         {"profile", part.profile},
                         {"start", part.placement.start},
                         {"size", part.placement.size},
                         {"compute", std::move(compute)}});
  }
  return {{"enabled", layout.enabled}, {"instances", std::move(instances)}};
}

mig::Placement placement_from(const Json& object) {
  return {static_cast<std::uint32_t>(count_at(object, "start")), static_cast<std::uint32_t>(count_at(object, "size"))};
}

std::optional<mig::Layout> layout_from(const Json& object) {
  if (!object.is_object()) return std::nullopt;
  mig::Layout layout{.enabled = truth_at(object, "enabled")};
  for (const Json& one : list_at(object, "instances")) {
    layout.parts.push_back(
        {static_cast<std::uint32_t>(count_at(one, "profileId")), text_at(one, "profile"), placement_from(one)});
    for (const Json& compute : list_at(one, "compute")) {
      if (!compute.is_object()) return std::nullopt;
      layout.parts.back().compute.push_back(placement_from(compute));
    }
  }
  return layout;
}

Json to_json(const MigChange& change) {
  return {{"gpu", change.gpu},
          {"config", change.config},
          {"boot", change.boot},
          {"before", to_json(change.before)},
          {"target", to_json(change.target)},
          {"undoing", change.undoing},
          {"waitsForReset", change.waits_for_reset},
          {"step", change.step},
          {"stepReturned", change.step_returned},
          {"made", change.made}};
}

std::optional<MigChange> change_from(const Json& object) {
  MigChange change;
  change.gpu = text_at(object, "gpu");
  const auto before = layout_from(member_at(object, "before"));
  const auto target = layout_from(member_at(object, "target"));
  if (change.gpu.empty() || !before || !target) return std::nullopt;
  change.config = text_at(object, "config");
  change.boot = text_at(object, "boot");
  change.before = *before;
  change.target = *target;
  change.undoing = truth_at(object, "undoing");
  change.waits_for_reset = truth_at(object, "waitsForReset");
  change.step = text_at(object, "step");
  change.step_returned = truth_at(object, "stepReturned");
  for (const Json& one : list_at(object, "made"))
    if (one.is_string()) change.made.push_back(one.get<std::string>());
  return change;
}

}  // namespace

Result<MigChangeFiles> MigChangeFiles::open(const std::string& folder) {
  TRY(Dir dir, Dir::create(folder));
  return MigChangeFiles(std::move(dir));
}

Status MigChangeFiles::write(const MigChange& change) const {
  return write_kept(folder_, file_of(change.gpu), json_text(to_json(change)) + "\n", 0644);
}

Status MigChangeFiles::forget(const std::string& gpu) const {
  return folder_.remove(file_of(gpu));
}

std::vector<MigChange> MigChangeFiles::unfinished(std::vector<std::string>& lost) const {
  std::vector<MigChange> changes;
  for (const std::string& name : folder_.list().value_or(std::vector<std::string>())) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const KeptFile kept = read_kept(folder_, name);
    if (!kept.lost.empty()) lost.push_back(kept.lost);
    if (!kept.text) continue;
    if (auto change = change_from(json_of(*kept.text)); change && file_of(change->gpu) == name) {
      changes.push_back(*std::move(change));
    } else {
      lost.push_back(put_aside(folder_, name, "it is not a record of a MIG change"));
    }
  }
  return changes;
}

}  // namespace tranche::host
