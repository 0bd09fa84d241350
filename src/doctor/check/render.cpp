#include "doctor/check/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/utf8.h"

namespace tranche::check {

std::string to_table(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<8} {:<22} {}\n", to_string(finding.level), finding.id, visible_text(finding.what));
    if (finding.level == Level::kOk) continue;
    if (!finding.where.empty()) text += fmt::format("{:<8} {:<22} at {}\n", "", "", visible_text(finding.where));
    if (!finding.remedy.empty()) text += fmt::format("{:<8} {:<22} → {}\n", "", "", visible_text(finding.remedy));
  }
  const auto count = [&findings](Level level, const char* what) {
    const auto number = std::ranges::count(findings, level, &Finding::level);
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  text += fmt::format("{} passed, {}, {}, {}\n", count(Level::kOk, "check"), count(Level::kNote, "note"),
                      count(Level::kWarning, "warning"), count(Level::kError, "error"));
  return text;
}

std::string to_json(const std::vector<Finding>& findings) {
  using Json = nlohmann::ordered_json;
  Json array = Json::array();
  for (const Finding& finding : findings) {
    array.push_back({{"level", to_string(finding.level)},
                     {"id", finding.id},
                     {"what", finding.what},
                     {"where", finding.where},
                     {"remedy", finding.remedy}});
  }
  return json_text(array, 2) + "\n";
}

}  // namespace tranche::check
