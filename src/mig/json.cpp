#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/words.h"
#include "mig/mig_plan.h"

namespace tranche::mig {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Placement& placement) {
  return {{"start", placement.start}, {"size", placement.size}};
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

std::string_view name_of(Step::What what) {
  using What = Step::What;
  static constexpr Word<What> kWords[] = {{What::kDestroyCompute, "destroyComputeInstance"},
                                          {What::kDestroyInstance, "destroyGpuInstance"},
                                          {What::kModeOn, "modeOn"},
                                          {What::kModeOff, "modeOff"},
                                          {What::kReset, "reset"},
                                          {What::kCreateInstance, "createGpuInstance"},
                                          {What::kCreateCompute, "createComputeInstance"}};
  return word_of(kWords, what);
}

Json json_of(const Step& step) {
  Json json = {{"step", name_of(step.what)}, {"text", to_string(step)}, {"why", step.why}};
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
          {"migWanted", gpu.target.enabled},
          {"needsReset", gpu.needs_reset()},
          {"modeReason", gpu.mode_why},
          {"stays", std::move(stays)},
          {"goes", std::move(goes)},
          {"made", std::move(made)},
          {"waitsFor", std::move(blockers)},
          {"fitsBesideHeld", gpu.fits_beside},
          {"steps", std::move(steps)}};
}

}  // namespace

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

std::string to_json_text(const ConfigurationFile& file) {
  Json configurations = Json::object();
  for (const auto& configuration : file.configurations) {
    Json entries = Json::array();
    for (const auto& entry : configuration.entries) {
      Json json = Json::object();
      Json filters = Json::array();
      for (const auto& filter : entry.filters) filters.push_back(to_string(filter));
      if (filters.size() == 1) json["device-filter"] = filters[0];
      if (filters.size() > 1) json["device-filter"] = filters;
      if (entry.devices)
        json["devices"] = *entry.devices;
      else
        json["devices"] = "all";
      json["mig-enabled"] = entry.enabled;
      Json instances = Json::object();
      for (const auto& [name, count] : entry.instances) instances[to_string(name)] = count;
      json["mig-devices"] = std::move(instances);
      entries.push_back(std::move(json));
    }
    configurations[configuration.name] = std::move(entries);
  }
  const Json document = {{"version", "v1"}, {"mig-configs", std::move(configurations)}};
  return json_text(document, 2);
}

}  // namespace tranche::mig
