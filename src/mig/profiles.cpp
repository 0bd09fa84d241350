#include "mig/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "mig/layout.h"
#include "plan/devices.h"

namespace tranche::mig {
namespace {

std::vector<std::pair<std::uint32_t, Placement>> cut_of(const GpuState& gpu) {
  std::vector<std::pair<std::uint32_t, Placement>> cut;
  for (const auto& instance : gpu.instances) cut.emplace_back(instance.profile_id, instance.placement);
  return cut;
}

bool alike(const GpuState& a, const GpuState& b) {
  return a.name == b.name && a.capable == b.capable && a.enabled == b.enabled && a.profiles == b.profiles &&
         cut_of(a) == cut_of(b);
}

// "{0,2,4}:2", as nvidia-smi writes placements; "-" for none.
std::string starts_of(const std::vector<Placement>& placements) {
  if (placements.empty()) return "-";
  std::vector<std::string> starts;
  for (const Placement& at : placements) starts.push_back(std::to_string(at.start));
  return fmt::format("{{{}}}:{}", join(starts, ","), placements.front().size);
}

std::string number(std::uint64_t value) {
  return value == 0 ? "-" : std::to_string(value);
}

std::vector<Placement> free_of(const GpuState& gpu, const Profile& profile) {
  if (room_for(gpu.profiles, profile, gpu.instances) == 0) return {};
  return free_placements(profile, gpu.instances);
}

// The smallest first, those of one size by memory and name.
std::vector<const Profile*> in_order(const GpuState& gpu) {
  std::vector<const Profile*> order;
  for (const Profile& profile : gpu.profiles) order.push_back(&profile);
  std::ranges::stable_sort(order, {}, [](const Profile* p) { return std::tuple(p->slices, p->memory_mib, p->name); });
  return order;
}

void write_profiles(const GpuState& gpu, TerminalText& out) {
  std::vector<TerminalText::Row> rows{
      {"PROFILE", "ID", "MEMORY", "SLICES", "SMS", "AT MOST", "FREE", "PLACEMENTS", "FREE PLACEMENTS", "RESOURCE"}};
  for (const Profile* profile : in_order(gpu)) {
    rows.push_back({profile->name, std::to_string(profile->id),
                    profile->memory_mib == 0 ? "-" : to_string(mib(profile->memory_mib)),
                    std::to_string(profile->slices), number(profile->sm_count), std::to_string(profile->at_most),
                    std::to_string(room_for(gpu.profiles, *profile, gpu.instances)), starts_of(profile->placements),
                    starts_of(free_of(gpu, *profile)), plan::mig_resource(profile->name)});
  }
  out.table(rows);
}

void write_instances(const GpuState& gpu, TerminalText& out) {
  if (gpu.instances.empty()) return;
  std::vector<TerminalText::Row> rows{{"GPU INSTANCE", "PROFILE", "PLACEMENT", "COMPUTE INSTANCES", "IN USE"}};
  for (const auto& instance : gpu.instances)
    rows.push_back({std::to_string(instance.id), profile_name(gpu.profiles, instance.profile_id),
                    to_string(instance.placement), std::to_string(instance.compute.size()),
                    instance.busy() ? "yes" : "no"});
  out.table(rows);
}

nlohmann::ordered_json placements_json(const std::vector<Placement>& placements) {
  auto list = nlohmann::ordered_json::array();
  for (const Placement& at : placements) list.push_back({{"start", at.start}, {"size", at.size}});
  return list;
}

}  // namespace

std::string why_no_profiles(const GpuState& gpu) {
  if (!gpu.profiles.empty() || !gpu.capable) return "";
  return "the driver lists no profiles, as one older than 550 does while MIG is off, and the model is not in Tranche's "
         "tables";
}

std::string profiles_text(const std::vector<GpuState>& gpus, bool colour) {
  TerminalText out(colour, 140);
  if (gpus.empty()) out.line("the driver knows no GPU");
  std::vector<bool> written(gpus.size());
  bool any = false;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (written[i]) continue;
    std::vector<std::uint32_t> indices;
    for (std::size_t j = i; j < gpus.size(); ++j) {
      if (!alike(gpus[i], gpus[j])) continue;
      written[j] = true;
      indices.push_back(gpus[j].index);
    }
    const GpuState& gpu = gpus[i];
    const char* const state = !gpu.capable ? "does not support MIG" : gpu.enabled ? "MIG on" : "MIG off";
    out.heading(fmt::format("{}  {}  {}", plan::list_of(indices), gpu.name, state));
    if (const auto why = why_no_profiles(gpu); !why.empty()) out.line(why);
    if (gpu.profiles.empty()) continue;
    any = true;
    write_profiles(gpu, out);
    write_instances(gpu, out);
  }
  if (any) {
    out.heading("How to read it");
    out.line("AT MOST counts instances of one profile alone; FREE how many more fit beside the present ones.");
    out.line("PLACEMENTS are the first memory slices and the number of slices.");
    out.line("RESOURCE is what pods ask for under migStrategy: mixed; under single it is nvidia.com/gpu.");
  }
  return out.take();
}

std::string profiles_json(const std::vector<GpuState>& gpus) {
  using Json = nlohmann::ordered_json;
  Json array = Json::array();
  for (const GpuState& gpu : gpus) {
    Json profiles = Json::array();
    for (const Profile* profile : in_order(gpu))
      profiles.push_back({{"profile", profile->name},
                          {"id", profile->id},
                          {"resource", plan::mig_resource(profile->name)},
                          {"memoryBytes", mib(profile->memory_mib).value},
                          {"slices", profile->slices},
                          {"smCount", profile->sm_count},
                          {"atMost", profile->at_most},
                          {"free", room_for(gpu.profiles, *profile, gpu.instances)},
                          {"placements", placements_json(profile->placements)},
                          {"freePlacements", placements_json(free_of(gpu, *profile))}});
    Json instances = Json::array();
    for (const auto& instance : gpu.instances) {
      Json devices = Json::array();
      for (const auto& compute : instance.compute) devices.push_back(compute.uuid);
      instances.push_back({{"gpuInstance", instance.id},
                           {"profile", profile_name(gpu.profiles, instance.profile_id)},
                           {"start", instance.placement.start},
                           {"size", instance.placement.size},
                           {"devices", std::move(devices)},
                           {"inUse", instance.busy()}});
    }
    array.push_back({{"index", gpu.index},
                     {"uuid", gpu.uuid},
                     {"name", gpu.name},
                     {"migCapable", gpu.capable},
                     {"migEnabled", gpu.enabled},
                     {"profiles", std::move(profiles)},
                     {"instances", std::move(instances)},
                     {"why", why_no_profiles(gpu)}});
  }
  return json_text(array, 2) + "\n";
}

}  // namespace tranche::mig
