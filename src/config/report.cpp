#include "config/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "config/document/amounts.h"
#include "config/field.h"

namespace tranche::config {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidestValue = 24;

Json problem_json(const Problem& problem) {
  return {{"severity", problem.severity == Severity::kError ? "error" : "warning"},
          {"source", problem.place.source},
          {"line", problem.place.line},
          {"column", problem.place.column},
          {"path", problem.path},
          {"what", problem.what},
          {"remedy", problem.remedy}};
}

// Policies of an entry are written if they differ from the section's; a split if it differs from the names' default.
void add_policies(const Sharing& sharing, const SharedResource& resource, Json& entry) {
  if (resource.guard_memory) entry["guard"]["memory"] = to_string(*resource.guard_memory);
  if (!resource.names.empty()) entry["names"] = resource.names;
  if (resource.threads != sharing.threads) entry["threads"] = json_value(resource.threads);
  if (resource.memory != sharing.memory) entry["memory"] = json_value(resource.memory);
  const SplitPolicy usual = is_individual(resource) ? SplitPolicy::kSpan : SplitPolicy::kReject;
  if (resource.split != usual) entry["split"] = to_string(resource.split);
}

Json render(const Sharing& sharing, const SharedResource& resource, bool mps) {
  Json entry{{"name", resource.name}};
  if (resource.slot_memory)
    entry["slotMemory"] = render_memory_size(*resource.slot_memory);
  else
    entry["replicas"] = resource.replicas;
  if (resource.rename) entry["rename"] = *resource.rename;
  if (const auto* count = std::get_if<DeviceCount>(&resource.devices)) entry["devices"] = count->count;
  if (const auto* refs = std::get_if<std::vector<DeviceRef>>(&resource.devices)) entry["devices"] = json_value(*refs);
  if (mps) add_policies(sharing, resource, entry);
  return entry;
}

Json render(const Sharing& sharing) {
  Json json = Json::object();
  if (sharing.per_device) json["perDevice"] = true;
  if (sharing.strategy == SharingStrategy::kNone) return json;
  const bool mps = sharing.strategy == SharingStrategy::kMps;
  Json& section = json[mps ? "mps" : "timeSlicing"];
  section["renameByDefault"] = sharing.rename_by_default;
  section["failRequestsGreaterThanOne"] = sharing.fail_requests_greater_than_one;
  section["resources"] = Json::array();
  Json beside = Json::array();
  for (const SharedResource& resource : sharing.resources) {
    const bool time_sliced = mps && resource.strategy == SharingStrategy::kTimeSlicing;
    (time_sliced ? beside : section["resources"]).push_back(render(sharing, resource, mps && !time_sliced));
  }
  if (!beside.empty())
    json["timeSlicing"] = {{"failRequestsGreaterThanOne", sharing.one_time_slice}, {"resources", std::move(beside)}};
  return json;
}

Json render(const Config& config) {
  Json json{{"version", config.version}, {"flags", Json::object()}, {"sharing", render(config.sharing)}};
  for (const Key& key : keys()) {
    Json value = is_in_effect(key, config) ? key.json(config) : Json();
    if (value.is_null()) continue;
    Json* at = &json;
    for (const std::string_view piece : split(key.path, '.')) at = &(*at)[std::string(piece)];
    *at = std::move(value);
  }
  return json;
}

}  // namespace

std::string problems_text(std::string_view path, const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) text += to_string(problem) + "\n";
  const auto errors = static_cast<std::size_t>(std::ranges::count(problems, Severity::kError, &Problem::severity));
  const std::size_t warnings = problems.size() - errors;
  const std::string subject = path.empty() ? "the configuration (no file)" : std::string(path);
  if (problems.empty()) return subject + ": no problems\n";
  return text + fmt::format("{}: {}, {}\n", subject, count_text(errors, "error"), count_text(warnings, "warning"));
}

std::string explained_text(const std::vector<Explained>& explained) {
  std::size_t path_width = 0;
  std::size_t value_width = 0;
  const auto shown = [](const Explained& row) {
    return row.value.empty() ? std::string("\"\"") : visible_text(row.value);
  };
  for (const Explained& row : explained) {
    path_width = std::max(path_width, row.path.size());
    value_width =
        std::max(value_width, std::min(shown(row).size(), kWidestValue));  // one long value does not widen the others
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {}\n", "SETTING", path_width, "VALUE", value_width, "FROM");
  for (const bool given : {true, false})  // settings that are not defaults first
    for (const Explained& row : explained)
      if ((row.source != Source::kDefault) == given)
        text +=
            fmt::format("{:<{}}  {:<{}}  {}\n", row.path, path_width, shown(row), value_width, visible_text(row.where));
  return text;
}

Json report_json(std::string_view path, const std::vector<Problem>& problems, const std::vector<Explained>* explained) {
  Json json{{"file", path}, {"usable", !has_error(problems)}};
  json["problems"] = Json::array();
  for (const Problem& problem : problems) json["problems"].push_back(problem_json(problem));
  if (explained != nullptr) {
    json["settings"] = Json::array();
    for (const Explained& row : *explained)
      json["settings"].push_back(
          {{"path", row.path}, {"value", row.value}, {"source", to_string(row.source)}, {"where", row.where}});
  }
  return json;
}

std::string given_line(const std::vector<Explained>& explained) {
  std::vector<std::string> parts;
  for (const Explained& row : explained)
    if (row.source != Source::kDefault) parts.push_back(fmt::format("{}={} ({})", row.path, row.value, row.where));
  return join(parts, ", ");
}

std::string render_line(const Config& config) {
  return json_text(render(config));
}

}  // namespace tranche::config
