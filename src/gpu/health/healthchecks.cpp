#include "gpu/health/healthchecks.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace tranche::gpu {
namespace {

// From data/xids.yaml (src/gpu/CMakeLists.txt): sorted, without overlap.
constexpr std::array kTable{
#include "xid_rules.inc"
};

}  // namespace

XidChoice parse_xid_choice(std::string_view text, std::string_view variable, std::vector<Problem>& problems) {
  XidChoice choice;
  std::string folded(text);
  std::ranges::transform(folded, folded.begin(), to_lower);
  for (const std::string_view piece : split(folded, ',')) {
    const std::string_view token = trimmed(piece);
    if (token.empty()) continue;  // a surplus comma
    if (token == "all" || token == "xids") {
      choice.all = true;
    } else if (const auto number = parse_unsigned(token); !number) {
      problems.push_back({.severity = Severity::kWarning,
                          .place = {.source = "$" + std::string(variable)},
                          .path = {},
                          .what = in_quotes(token) + " is not the number of an XID, and is skipped",
                          .remedy = "write numbers separated by commas, such as 48,79, or all"});
    } else if (*number == 0) {
      choice.all = true;
    } else {
      choice.xids.insert(*number);
    }
  }
  return choice;
}

HealthChecks parse_health_checks(std::string_view disable, std::string_view enable, std::vector<Problem>& problems) {
  HealthChecks checks;
  checks.disabled = parse_xid_choice(disable, kDisableVariable, problems);
  checks.enabled = parse_xid_choice(enable, kEnableVariable, problems);
  return checks;
}

std::string to_string(const XidChoice& choice) {
  std::string text = choice.all ? "all" : "";
  for (const std::uint64_t xid : choice.xids) text += (text.empty() ? "" : ",") + std::to_string(xid);
  return text;
}

XidClass class_of(const HealthChecks& checks, std::uint64_t xid) {
  const XidClass own = class_of_xid(xid);
  if (checks.enabled.all || checks.enabled.xids.contains(xid))
    return own == XidClass::kReset ? XidClass::kReset : XidClass::kDrain;
  if (checks.disabled.all || checks.disabled.xids.contains(xid)) return XidClass::kIgnore;
  return own;
}

std::span<const XidRule> xid_rules() {
  return kTable;
}

const XidRule* find_xid(std::uint64_t xid) {
  const auto it = std::ranges::find_if(kTable, [&](const XidRule& rule) { return rule.from <= xid && xid <= rule.to; });
  return it == kTable.end() ? nullptr : it;
}

XidClass class_of_xid(std::uint64_t xid) {
  const XidRule* rule = find_xid(xid);
  return rule == nullptr ? XidClass::kDrain : rule->cls;
}

}  // namespace tranche::gpu
