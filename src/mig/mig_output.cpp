
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "mig/mig_plan.h"
#include "plan/select.h"

namespace tranche::mig {
namespace {

using Json = nlohmann::ordered_json;

std::string devices_of(const GpuInstance& instance, const Profile* profile) {
  return join(instance.compute, " ", [profile](const ComputeInstance& compute) {
    const bool whole = profile == nullptr || compute.placement.size >= profile->slices;
    return whole ? "whole" : fmt::format("{}c", compute.placement.size);
  });
}

void write_parts(const GpuPlan& gpu, TerminalText& out) {
  std::vector<TerminalText::Row> rows{{"", "PROFILE", "PLACEMENT", "COMPUTE INSTANCES", "GPU INSTANCE"}};
  const auto& profiles = gpu.now.profiles;
  for (const GpuInstance& instance : gpu.goes())
    rows.push_back({"goes", profile_name(profiles, instance.profile_id), to_string(instance.placement), "-",
                    std::to_string(instance.id)});
  for (const GpuInstance& instance : gpu.after.instances) {
    const bool stays = instance.id != kNotMadeYet;
    rows.push_back({stays ? "stays" : "made", profile_name(profiles, instance.profile_id),
                    to_string(instance.placement), devices_of(instance, find_profile(profiles, instance.profile_id)),
                    stays ? std::to_string(instance.id) : "-"});
  }
  if (rows.size() > 1) out.table(rows);
}

std::string state_of(const GpuPlan& gpu) {
  if (!gpu.matched) return "left alone: no entry names it";
  if (gpu.as_wanted) return "as configured";
  if (gpu.steps.empty()) return "cannot be planned";
  if (gpu.mode_changes()) return gpu.after.enabled ? "MIG is switched on" : "MIG is switched off";
  return "changes";
}

std::string body_of(const GpuPlan& gpu, bool colour, int width) {
  TerminalText out(colour, width);
  if (gpu.matched) write_parts(gpu, out);
  if (!gpu.mode_why.empty()) out.sentence("mode", gpu.mode_why, "36");
  for (const Blocker& blocker : gpu.blockers)
    out.sentence("waits", fmt::format("for {}: it holds {}", list_of(blocker.holders), blocker.what), "33");
  if (!gpu.fits_beside.empty())
    out.sentence("note", "beside the held instances, this part of the configuration fits: " + gpu.fits_beside, "36");
  for (std::size_t i = 0; i < gpu.steps.size(); ++i) out.line(fmt::format("{}. {}", i + 1, to_string(gpu.steps[i])));
  return out.take();
}

constexpr int kProfilesWidth = 140;

struct Section {
  std::vector<std::uint32_t> gpus;  // indices
  std::string title, body;
};

// One section for each GPU, or for those that read alike.
std::string text_of(const std::vector<Section>& each, bool colour, int width) {
  std::vector<Section> sections;
  for (const Section& one : each) {
    const auto same = std::ranges::find_if(
        sections, [&](const Section& other) { return other.title == one.title && other.body == one.body; });
    if (same == sections.end())
      sections.push_back(one);
    else
      same->gpus.push_back(one.gpus.front());
  }
  return join(sections, "\n", [&](const Section& section) {
    TerminalText heading(colour, width);
    heading.heading(plan::list_of(section.gpus) + "  " + section.title);
    return heading.take() + section.body;
  });
}

Json json_of(const Placement& placement) {
  return {{"start", placement.start}, {"size", placement.size}};
}

Json json_of(const std::vector<Placement>& placements) {
  Json list = Json::array();
  for (const Placement& placement : placements) list.push_back(json_of(placement));
  return list;
}

Json json_of(const std::vector<Holder>& holders) {
  Json list = Json::array();
  for (const Holder& holder : holders) {
    list.push_back({{"who", holder.who}});
    if (holder.pid != 0) list.back()["pid"] = holder.pid;
  }
  return list;
}

Json json_of(const GpuPlan& gpu, const GpuInstance& instance) {
  return {{"profile", profile_name(gpu.now.profiles, instance.profile_id)},
          {"profileId", instance.profile_id},
          {"placement", json_of(instance.placement)}};
}

Json json_of(const Step& step) {
  Json json = {{"step", to_string(step.what)}, {"text", to_string(step)}, {"why", step.why}};
  if (step.instance) json["gpuInstance"] = *step.instance;
  if (step.compute) json["computeInstance"] = *step.compute;
  if (!step.profile.empty()) json["profile"] = step.profile;
  if (step.placement.size > 0) json["placement"] = json_of(step.placement);
  return json;
}

Json json_of(const GpuPlan& gpu) {
  Json stays = Json::array(), goes = Json::array(), made = Json::array(), steps = Json::array(),
       blockers = Json::array();
  for (const GpuInstance& instance : gpu.after.instances) {
    Json json = json_of(gpu, instance);
    json["computeInstances"] = Json::array();
    for (const ComputeInstance& one : instance.compute) json["computeInstances"].push_back(json_of(one.placement));
    const bool is_there = instance.id != kNotMadeYet;
    if (is_there) json["gpuInstance"] = instance.id;
    (is_there ? stays : made).push_back(std::move(json));
  }
  for (const GpuInstance& instance : gpu.goes()) {
    Json json = json_of(gpu, instance);
    json["gpuInstance"] = instance.id;
    json["held"] = instance.busy();
    goes.push_back(std::move(json));
  }
  for (const Step& step : gpu.steps) steps.push_back(json_of(step));
  for (const Blocker& blocker : gpu.blockers)
    blockers.push_back({{"what", blocker.what}, {"holders", json_of(blocker.holders)}});
  return {{"index", gpu.now.index},
          {"uuid", gpu.now.uuid},
          {"name", gpu.now.name},
          {"matched", gpu.matched},
          {"asConfigured", gpu.as_wanted},
          {"migEnabled", gpu.now.enabled},
          {"migWanted", gpu.after.enabled},
          {"needsReset", gpu.needs_reset()},
          {"modeReason", gpu.mode_why},
          {"stays", std::move(stays)},
          {"goes", std::move(goes)},
          {"made", std::move(made)},
          {"waitsFor", std::move(blockers)},
          {"fitsBesideHeld", gpu.fits_beside},
          {"steps", std::move(steps)}};
}

// "{0,2,4}:2", as nvidia-smi writes placements; "-" for none.
std::string starts_of(const std::vector<Placement>& placements) {
  if (placements.empty()) return "-";
  const auto starts = join(placements, ",", [](const Placement& at) { return std::to_string(at.start); });
  return fmt::format("{{{}}}:{}", starts, placements.front().size);
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

}  // namespace

std::string plan_text(const Plan& plan, bool colour, int width) {
  if (plan.gpus.empty()) return "  the driver reports no GPU\n";
  std::vector<Section> sections;
  for (const GpuPlan& gpu : plan.gpus)
    sections.push_back({{gpu.now.index}, gpu.now.name + "  " + state_of(gpu), body_of(gpu, colour, width)});
  return text_of(sections, colour, width);
}

std::string plan_json(const Plan& plan) {
  Json gpus = Json::array(), problems = Json::array();
  for (const GpuPlan& gpu : plan.gpus) gpus.push_back(json_of(gpu));
  for (const Problem& problem : plan.problems)
    problems.push_back(
        {{"severity", problem.severity == Severity::kError ? "error" : "warning"}, {"text", to_string(problem)}});
  const Json document = {{"configuration", plan.configuration}, {"asConfigured", plan.as_wanted()},
                         {"possible", plan.possible()},         {"blocked", plan.blocked()},
                         {"needsReset", plan.needs_reset()},    {"gpus", std::move(gpus)},
                         {"problems", std::move(problems)}};
  return json_text(document, 2) + "\n";
}

std::string why_no_profiles(const GpuState& gpu) {
  if (!gpu.profiles.empty() || !gpu.capable) return "";
  return "the driver lists no profiles, as one older than 550 does while MIG is off, and the model is not in Tranche's "
         "tables";
}

std::string profiles_text(const std::vector<GpuState>& gpus, bool colour) {
  if (gpus.empty()) return "  the driver reports no GPU\n";
  std::vector<Section> sections;
  bool any = false;
  for (const GpuState& gpu : gpus) {
    TerminalText body(colour, kProfilesWidth);
    if (const auto why = why_no_profiles(gpu); !why.empty()) body.line(why);
    if (!gpu.profiles.empty()) {
      any = true;
      write_profiles(gpu, body);
      write_instances(gpu, body);
    }
    const char* const state = !gpu.capable ? "does not support MIG" : gpu.enabled ? "MIG on" : "MIG off";
    sections.push_back({{gpu.index}, gpu.name + "  " + state, body.take()});
  }
  TerminalText out(colour, kProfilesWidth);
  if (any) {
    out.heading("Columns");
    out.line("AT MOST counts instances of one profile alone; FREE counts how many more fit beside the present ones.");
    out.line("PLACEMENTS are the first memory slices and the number of slices.");
    out.line("RESOURCE is the name that pods request with migStrategy: mixed; with single, it is nvidia.com/gpu.");
  }
  return text_of(sections, colour, kProfilesWidth) + (any ? "\n" : "") + out.take();
}

std::string profiles_json(const std::vector<GpuState>& gpus) {
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
                          {"placements", json_of(profile->placements)},
                          {"freePlacements", json_of(free_of(gpu, *profile))}});
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
