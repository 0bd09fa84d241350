#include "config/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/utf8.h"

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

}  // namespace tranche::config
