#include <fmt/format.h>

#include <algorithm>

#include "base/terminal_text.h"
#include "base/text.h"
#include "mig/mig_plan.h"
#include "plan/devices.h"

namespace tranche::mig {
namespace {

std::string holders_text(const std::vector<Holder>& holders) {
  std::vector<std::string> names;
  for (const Holder& holder : holders) names.push_back(holder.who);
  return names.empty() ? "a process that the driver does not name" : join(names, ", ");
}

std::string devices_of(const GpuInstance& instance, const Profile* profile) {
  std::vector<std::string> names;
  for (const ComputeInstance& compute : instance.compute)
    names.push_back(profile == nullptr || compute.placement.size >= profile->slices
                        ? "whole"
                        : fmt::format("{}c", compute.placement.size));
  return join(names, " ");
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
  if (gpu.mode_changes()) return gpu.target.enabled ? "MIG goes on" : "MIG goes off";
  return "changes";
}

std::string body_of(const GpuPlan& gpu, bool colour, int width) {
  TerminalText out(colour, width);
  if (gpu.matched) write_parts(gpu, out);
  if (!gpu.mode_why.empty()) out.sentence("mode", gpu.mode_why, "36");
  for (const Blocker& blocker : gpu.blockers)
    out.sentence("waits", fmt::format("for {}: it holds {}", holders_text(blocker.holders), blocker.what), "33");
  if (!gpu.fits_beside.empty())
    out.sentence("note", "beside the held instances, this part of the configuration fits: " + gpu.fits_beside, "36");
  for (std::size_t i = 0; i < gpu.steps.size(); ++i) out.line(fmt::format("{}. {}", i + 1, to_string(gpu.steps[i])));
  return out.take();
}

// GPUs that read alike.
struct PlanSection {
  std::vector<std::uint32_t> indices;
  std::string title;
  std::string body;
};

}  // namespace

std::string plan_text(const Plan& plan, bool colour, int width) {
  if (plan.gpus.empty()) return "  the driver knows no GPU\n";
  std::vector<PlanSection> sections;
  for (const GpuPlan& gpu : plan.gpus) {
    PlanSection section{
        {gpu.now.index}, fmt::format("{}  {}", gpu.now.name, state_of(gpu)), body_of(gpu, colour, width)};
    const auto same = std::ranges::find_if(
        sections, [&](const PlanSection& other) { return other.title == section.title && other.body == section.body; });
    if (same == sections.end())
      sections.push_back(std::move(section));
    else
      same->indices.push_back(gpu.now.index);
  }
  std::string text;
  for (const PlanSection& section : sections) {
    TerminalText heading(colour, width);
    heading.heading(plan::list_of(section.indices) + "  " + section.title);
    text += (text.empty() ? "" : "\n") + heading.take() + section.body;
  }
  return text;
}

}  // namespace tranche::mig
