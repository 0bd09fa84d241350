#include "mig/driver/checkpoint.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"

namespace tranche::mig {
namespace {

using Json = nlohmann::json;

constexpr const char* kVersion = "v1";
constexpr std::size_t kMost = 64;  // GPUs, and instances of one: more than there can be

// Slices of a compute instance by its profile's number in NVML (nvml.h, NVML_COMPUTE_INSTANCE_PROFILE_*).
std::optional<std::uint32_t> slices_of(std::uint32_t number) {
  constexpr std::array<std::uint32_t, 8> kSlices{1, 2, 3, 4, 7, 8, 6, 1};
  return number < kSlices.size() ? std::optional(kSlices.at(number)) : std::nullopt;
}

Error wrong(const std::string& where, const std::string& what) {
  return fail(Kind::kInvalid, "this is not a checkpoint: " + what, where).error();
}

Result<std::uint32_t> number_in(const Json& object, const char* key, const std::string& where) {
  const auto value = number_at(object, key);
  if (!value || *value < 0 || *value > 1000)
    return std::unexpected(wrong(where, std::string(key) + " is not a number"));
  return static_cast<std::uint32_t>(*value);
}

// The list at `key`; null counts as empty, as Go writes it.
Result<const Json*> list_in(const Json& object, const char* key, const std::string& where) {
  const Json& list = member_at(object, key);
  static const Json kNone = Json::array();
  if (list.is_null()) return &kNone;
  if (!list.is_array() || list.size() > kMost)
    return std::unexpected(wrong(where, std::string(key) + " is not a list of at most " + std::to_string(kMost)));
  return &list;
}

Result<Checkpoint::Instance> instance_from(const Json& object, const std::string& where) {
  Checkpoint::Instance instance;
  TRY(instance.number, number_in(object, "ProfileID", where));
  const Json& place = member_at(object, "Placement");
  TRY(instance.place.start, number_in(place, "Start", where + ".Placement"));
  TRY(instance.place.size, number_in(place, "Size", where + ".Placement"));
  TRY(const Json* compute, list_in(object, "ComputeInstances", where));
  for (const Json& one : *compute) {
    TRY(const std::uint32_t number, number_in(one, "ProfileID", where + ".ComputeInstances"));
    TRY(const std::uint32_t engines, number_in(one, "EngProfileID", where + ".ComputeInstances"));
    if (engines != 0) return std::unexpected(wrong(where, "EngProfileID is not 0, the only one that NVIDIA has"));
    instance.compute.push_back(number);
  }
  return instance;
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
  if (!document.is_object()) return std::unexpected(wrong("", "it is not a JSON object"));
  if (text_at(document, "Version") != kVersion)
    return std::unexpected(wrong("Version", "it is not \"" + std::string(kVersion) + "\""));
  const Json& state = member_at(document, "MigState");
  if (!state.is_object()) return std::unexpected(wrong("MigState", "it is not an object"));
  TRY(const Json* devices, list_in(state, "Devices", "MigState"));
  Checkpoint checkpoint;
  for (const Json& device : *devices) {
    const std::string where = "MigState.Devices[" + std::to_string(checkpoint.gpus.size()) + "]";
    Checkpoint::Gpu gpu;
    gpu.uuid = text_at(device, "UUID");
    if (gpu.uuid.empty()) return std::unexpected(wrong(where, "UUID is missing"));
    if (std::ranges::find(checkpoint.gpus, gpu.uuid, &Checkpoint::Gpu::uuid) != checkpoint.gpus.end())
      return std::unexpected(wrong(where, "a different entry has the same UUID"));
    TRY(const std::uint32_t mode, number_in(device, "MigMode", where));
    if (mode > 1) return std::unexpected(wrong(where, "MigMode is neither 0 nor 1"));
    gpu.enabled = mode == 1;
    TRY(const Json* instances, list_in(device, "GpuInstances", where));
    for (const Json& one : *instances) {
      TRY(auto instance, instance_from(one, where + ".GpuInstances[" + std::to_string(gpu.instances.size()) + "]"));
      gpu.instances.push_back(std::move(instance));
    }
    if (!gpu.enabled && !gpu.instances.empty())
      return std::unexpected(wrong(where, "GpuInstances is not empty while MigMode is 0"));
    checkpoint.gpus.push_back(std::move(gpu));
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
      if (saved != checkpoint.gpus.end() && saved->enabled) refuse("GPU " + std::to_string(gpu.index) + " has no MIG");
      plan.gpus.push_back(left_alone(gpu));
      continue;
    }
    Layout target{.enabled = saved->enabled};
    for (const auto& instance : saved->instances) {
      const auto profile = std::ranges::find(gpu.profiles, instance.number, &Profile::number);
      if (profile == gpu.profiles.end() ||
          (!profile->placements.empty() &&
           std::ranges::find(profile->placements, instance.place) == profile->placements.end())) {
        refuse("GPU " + std::to_string(gpu.index) + " has no instance of the driver's profile number " +
               std::to_string(instance.number) + " at slice " + std::to_string(instance.place.start));
        continue;
      }
      Part part{.profile_id = profile->id, .profile = profile->name, .placement = instance.place};
      std::uint32_t start = 0;
      for (const auto number : instance.compute) {
        const auto slices = slices_of(number);
        if (!slices) {
          refuse("GPU " + std::to_string(gpu.index) + ": there is no compute instance profile number " +
                 std::to_string(number));
          continue;
        }
        part.compute.push_back({start, *slices});
        start += *slices;
      }
      target.parts.push_back(std::move(part));
    }
    std::ranges::sort(target.parts, {}, &Part::placement);
    plan.gpus.push_back(plan_to(gpu, mode_only ? with_mode(gpu, saved->enabled) : target));
  }
  return plan;
}

}  // namespace tranche::mig
