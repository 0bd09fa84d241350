#include "mig/driver/layout.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/text.h"

namespace tranche::host {
namespace {

using Json = nlohmann::json;

std::string profile_name(const MigGpu& gpu, std::uint32_t id) {
  const auto kind = std::ranges::find(gpu.kinds, id, &MigKind::id);
  return kind == gpu.kinds.end() ? "profile " + std::to_string(id) : kind->profile.name;
}

// The compute instances that stay, of those that are there: as many of each size as are wanted. What is wanted and not
// there is left in `missing`.
std::vector<bool> kept_compute(const MigGpuInstance& instance, const MigWanted& wanted,
                               std::vector<std::uint32_t>& missing) {
  missing = wanted.compute;
  std::vector<bool> kept;
  for (const auto& compute : instance.compute) {
    const auto match = std::ranges::find(missing, compute.slices);
    kept.push_back(match != missing.end());
    if (match != missing.end()) missing.erase(match);
  }
  return kept;
}

const MigWanted* wanted_of(const MigLayout& layout, const MigGpuInstance& instance) {
  if (!layout.enabled) return nullptr;
  const auto found = std::ranges::find_if(layout.instances, [&](const MigWanted& wanted) {
    return wanted.profile_id == instance.profile_id && wanted.place == instance.place;
  });
  return found == layout.instances.end() ? nullptr : &*found;
}

MigStep about(const MigGpu& now, const MigGpuInstance& instance, MigStep::What what) {
  MigStep step{.what = what};
  step.gpu_instance = instance.id;
  step.profile_id = instance.profile_id;
  step.place = instance.place;
  step.profile = profile_name(now, instance.profile_id);
  return step;
}

std::optional<MigStep> step_away(const MigGpu& now, const MigLayout& wanted) {
  for (const auto& instance : now.instances) {
    const MigWanted* stays = wanted_of(wanted, instance);
    std::vector<std::uint32_t> missing;
    const auto kept = stays != nullptr ? kept_compute(instance, *stays, missing) : std::vector<bool>();
    for (std::size_t i = 0; i < instance.compute.size(); ++i) {
      if (stays != nullptr && kept[i]) continue;
      MigStep step = about(now, instance, MigStep::What::kDestroyCompute);
      step.compute_instance = instance.compute[i].id;
      return step;
    }
    if (stays == nullptr) return about(now, instance, MigStep::What::kDestroyInstance);
  }
  return std::nullopt;
}

std::optional<MigStep> step_towards(const MigGpu& now, const MigLayout& wanted) {
  for (const auto& one : wanted.instances) {
    const auto there = std::ranges::find_if(now.instances, [&](const MigGpuInstance& instance) {
      return instance.profile_id == one.profile_id && instance.place == one.place;
    });
    if (there == now.instances.end()) {
      MigStep step{.what = MigStep::What::kCreateInstance};
      step.profile_id = one.profile_id;
      step.place = one.place;
      step.profile = one.profile;
      return step;
    }
    std::vector<std::uint32_t> missing;
    kept_compute(*there, one, missing);
    if (missing.empty()) continue;
    MigStep step = about(now, *there, MigStep::What::kCreateCompute);
    step.slices = *std::ranges::max_element(missing);  // large ones find room only while it is whole
    return step;
  }
  return std::nullopt;
}

}  // namespace

MigLayout layout_of(const MigGpu& gpu) {
  MigLayout layout{.enabled = gpu.enabled, .instances = {}};
  for (const auto& instance : gpu.instances) {
    MigWanted wanted{.profile_id = instance.profile_id,
                     .profile = profile_name(gpu, instance.profile_id),
                     .place = instance.place,
                     .compute = {}};
    for (const auto& compute : instance.compute) wanted.compute.push_back(compute.slices);
    layout.instances.push_back(std::move(wanted));
  }
  return layout;
}

std::string to_string(const MigLayout& layout) {
  if (!layout.enabled) return "MIG off";
  if (layout.instances.empty()) return "MIG on, no instances";
  std::vector<std::string> parts;
  for (const auto& one : layout.instances) {
    parts.push_back(one.profile + " at " + std::to_string(one.place.start));
    if (one.compute.empty()) parts.back() += " without a compute instance";
  }
  return join(parts, ", ");
}

Json to_json(const MigLayout& layout) {
  Json instances = Json::array();
  for (const auto& one : layout.instances)
    instances.push_back({{"profileId", one.profile_id},
                         {"profile", one.profile},
                         {"start", one.place.start},
                         {"size", one.place.size},
                         {"compute", one.compute}});
  return {{"enabled", layout.enabled}, {"instances", std::move(instances)}};
}

std::optional<MigLayout> layout_from(const Json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto count = [](const Json& from, const char* key) { return static_cast<std::uint32_t>(count_at(from, key)); };
  MigLayout layout{.enabled = truth_at(object, "enabled"), .instances = {}};
  for (const Json& one : list_at(object, "instances")) {
    MigWanted wanted{.profile_id = count(one, "profileId"),
                     .profile = text_at(one, "profile"),
                     .place = {count(one, "start"), count(one, "size")},
                     .compute = {}};
    for (const Json& slices : list_at(one, "compute"))
      wanted.compute.push_back(static_cast<std::uint32_t>(number_of(slices).value_or(0)));
    layout.instances.push_back(std::move(wanted));
  }
  return layout;
}

std::string to_string(const MigStep& step) {
  const std::string where = step.profile + " at " + std::to_string(step.place.start);
  switch (step.what) {
    case MigStep::What::kSetMode:
      return step.on ? "enable MIG" : "disable MIG";
    case MigStep::What::kDestroyCompute:
      return "destroy compute instance " + std::to_string(step.compute_instance) + " of " + where;
    case MigStep::What::kDestroyInstance:
      return "destroy the GPU instance " + where;
    case MigStep::What::kCreateInstance:
      return "create the GPU instance " + where;
    case MigStep::What::kCreateCompute:
      return "create a compute instance of " + std::to_string(step.slices) + " slices in " + where;
  }
  return {};
}

bool destroys(const MigStep& step) {
  return step.what == MigStep::What::kSetMode || step.what == MigStep::What::kDestroyCompute ||
         step.what == MigStep::What::kDestroyInstance;
}

std::optional<MigStep> next_step(const MigGpu& now, const MigLayout& wanted) {
  const bool mode_is_right = now.enabled == wanted.enabled && now.pending == wanted.enabled;
  if (wanted.enabled && !mode_is_right) return MigStep{.what = MigStep::What::kSetMode, .on = true};
  if (auto step = step_away(now, wanted)) return step;
  if (!mode_is_right) return MigStep{.what = MigStep::What::kSetMode, .on = false};
  return wanted.enabled ? step_towards(now, wanted) : std::nullopt;
}

std::vector<MigGpuInstance> leaving(const MigGpu& now, const MigLayout& wanted) {
  std::vector<MigGpuInstance> gone;
  for (const auto& instance : now.instances) {
    const MigWanted* stays = wanted_of(wanted, instance);
    std::vector<std::uint32_t> missing;
    if (stays != nullptr && std::ranges::all_of(kept_compute(instance, *stays, missing), std::identity())) continue;
    gone.push_back(instance);
  }
  return gone;
}

std::vector<std::string> staying(const MigGpu& now, const MigLayout& wanted) {
  std::vector<std::string> uuids;
  for (const auto& instance : now.instances) {
    const MigWanted* stays = wanted_of(wanted, instance);
    if (stays == nullptr) continue;
    std::vector<std::uint32_t> missing;
    const auto kept = kept_compute(instance, *stays, missing);
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i]) uuids.push_back(instance.compute[i].uuid);
  }
  return uuids;
}

}  // namespace tranche::host
