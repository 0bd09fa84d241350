#include "mig/driver/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche::mig {
namespace {

using Json = nlohmann::json;

constexpr const char* kVersion = "v1";

// Slices of a compute instance by its profile's number in NVML (nvml.h, NVML_COMPUTE_INSTANCE_PROFILE_*).
std::optional<std::uint32_t> slices_of(std::uint32_t number) {
  constexpr std::array<std::uint32_t, 8> kSlices{1, 2, 3, 4, 7, 8, 6, 1};
  return number < kSlices.size() ? std::optional(kSlices.at(number)) : std::nullopt;
}

std::unexpected<Error> wrong(const std::string& where, const std::string& what) {
  return fail(Kind::kInvalid, "this is not a checkpoint: " + what, where);
}

// Throws what Json throws of a member that is not there or not a number of this kind.
std::uint32_t number_in(const Json& object, const char* key) {
  const auto& number = object.at(key).get_ref<const Json::number_unsigned_t&>();
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, ~std::uint32_t{0}));
}

}  // namespace

std::string checkpoint_text(const std::vector<GpuState>& gpus) {
  using Ordered = nlohmann::ordered_json;
  Ordered devices = Ordered::array();
  for (const GpuState& gpu : gpus) {
    if (!gpu.capable) continue;
    Ordered instances = Ordered::array();
    for (const Profile& profile : gpu.profiles)  // in the driver's order of profiles, as mig-parted walks them
      for (const GpuInstance& instance : gpu.instances) {
        if (instance.profile_id != profile.id || !profile.number) continue;
        Ordered compute = Ordered::array();
        for (const auto& one : instance.compute) compute.push_back({{"ProfileID", one.number}, {"EngProfileID", 0}});
        instances.push_back({{"ProfileID", *profile.number},
                             {"Placement", {{"Start", instance.placement.start}, {"Size", instance.placement.size}}},
                             {"ComputeInstances", std::move(compute)}});
      }
    devices.push_back({{"UUID", gpu.uuid}, {"MigMode", gpu.enabled ? 1 : 0}, {"GpuInstances", std::move(instances)}});
  }
  const Ordered document{{"Version", kVersion}, {"MigState", {{"Devices", std::move(devices)}}}};
  return json_text(document) + "\n";
}

Result<Checkpoint> parse_checkpoint(std::string_view text) {
  const Json document = json_of(std::string(text));
  if (!document.is_object()) return wrong("", "it is not a JSON object");
  if (text_at(document, "Version") != kVersion) return wrong("Version", "it is not \"" + std::string(kVersion) + "\"");
  Checkpoint checkpoint;
  std::string where = "MigState.Devices";
  try {
    const Json& devices = document.at("MigState").at("Devices");
    for (const Json& device : devices) {  // null is an empty list, as Go writes it
      const std::string here = where = fmt::format("MigState.Devices[{}]", checkpoint.gpus.size());
      const std::uint32_t mode = number_in(device, "MigMode");
      Checkpoint::Gpu gpu{device.at("UUID"), mode == 1, {}};
      if (std::ranges::find(checkpoint.gpus, gpu.uuid, &Checkpoint::Gpu::uuid) != checkpoint.gpus.end())
        return wrong(here, "a different entry has the same UUID");
      if (mode > 1) return wrong(here, "MigMode is neither 0 nor 1");
      for (const Json& one : member_at(device, "GpuInstances")) {
        where = fmt::format("{}.GpuInstances[{}]", here, gpu.instances.size());
        const Json& place = one.at("Placement");
        auto& instance = gpu.instances.emplace_back(number_in(one, "ProfileID"),
                                                    Placement{number_in(place, "Start"), number_in(place, "Size")});
        for (const Json& compute : member_at(one, "ComputeInstances"))
          instance.compute.push_back(number_in(compute, "ProfileID"));
      }
      if (!gpu.enabled && !gpu.instances.empty()) return wrong(here, "GpuInstances is not empty while MigMode is 0");
      checkpoint.gpus.push_back(std::move(gpu));
    }
  } catch (const Json::exception&) {
    return wrong(where, "a member is missing or is not what it has to be");
  }
  return checkpoint;
}

Plan restoring_plan(const Checkpoint& checkpoint, const std::vector<GpuState>& gpus, bool mode_only,
                    const std::string& source) {
  Plan plan;
  plan.configuration = "checkpoint";
  const auto refuse = [&](const std::string& what) {
    plan.problems.push_back(
        {Severity::kError, {source, 0, 0}, {}, what, "restore a checkpoint of this node, or apply a configuration"});
  };
  for (const auto& saved : checkpoint.gpus)
    if (std::ranges::find(gpus, saved.uuid, &GpuState::uuid) == gpus.end())
      refuse("no GPU of this node that answers is " + in_quotes(saved.uuid));
  for (const GpuState& gpu : gpus) {
    const auto saved = std::ranges::find(checkpoint.gpus, gpu.uuid, &Checkpoint::Gpu::uuid);
    if (saved == checkpoint.gpus.end() || !gpu.capable) {
      if (saved != checkpoint.gpus.end() && saved->enabled) refuse(fmt::format("GPU {} has no MIG", gpu.index));
      plan.gpus.push_back(left_alone(gpu));
      continue;
    }
    std::vector<GpuInstance> instances;
    for (const auto& instance : saved->instances) {
      const auto profile = std::ranges::find(gpu.profiles, instance.number, &Profile::number);
      if (profile == gpu.profiles.end() ||
          (!profile->placements.empty() &&
           std::ranges::find(profile->placements, instance.place) == profile->placements.end())) {
        refuse(fmt::format("GPU {} has no instance of the driver's profile number {} at slice {}", gpu.index,
                           instance.number, instance.place.start));
        continue;
      }
      auto& wanted = instances.emplace_back(kNotMadeYet, profile->id, instance.place);
      std::uint32_t start = 0;
      for (const auto number : instance.compute) {
        const auto slices = slices_of(number);
        if (!slices) {
          refuse(fmt::format("GPU {}: there is no compute instance profile number {}", gpu.index, number));
          continue;
        }
        wanted.compute.push_back({.id = kNotMadeYet, .placement = {start, *slices}});
        start += *slices;
      }
    }
    std::ranges::sort(instances, {}, &GpuInstance::placement);
    GpuState target = with_mode(gpu, saved->enabled);
    if (!mode_only) target.instances = std::move(instances);
    plan.gpus.push_back(plan_to(gpu, target));
  }
  return plan;
}

}  // namespace tranche::mig
