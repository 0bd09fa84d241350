#include "doctor/verify/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "base/utf8.h"

namespace tranche::verify {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::size_t count(const Checks& checks, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(checks, verdict, &Check::verdict));
}

const char* colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "\033[32m";
    case Verdict::kFail:
      return "\033[1;31m";
    case Verdict::kSkip:
      break;
  }
  return "\033[33m";
}

// XML 1.0 has no way to write most control characters, and accepts UTF-8 only.
std::string xml(std::string_view text) {
  return in_markup(visible_text(text));
}

std::string with_remedy(const Check& check) {
  return check.remedy.empty() ? check.what : check.what + "; " + check.remedy;
}

}  // namespace

std::string line_of(const Check& check, bool colour) {
  const std::string about = check.about.empty() ? "" : check.about + ": ";
  std::string text =
      fmt::format("{}{}{}  {:<20} {}{}\n", colour ? colour_of(check.verdict) : "", to_string(check.verdict),
                  colour ? "\033[0m" : "", check.id, visible_text(about), visible_text(check.what));
  if (!check.remedy.empty()) text += fmt::format("{:<26} → {}\n", "", visible_text(check.remedy));
  return text;
}

std::string summary_of(const Report& report) {
  return fmt::format("{}: {} passed, {} failed, {} skipped\n", report.subject, count(report.checks, Verdict::kPass),
                     count(report.checks, Verdict::kFail), count(report.checks, Verdict::kSkip));
}

std::string to_json(const Report& report) {
  OrderedJson checks = OrderedJson::array();
  for (const Check& check : report.checks)
    checks.push_back({{"verdict", to_string(check.verdict)},
                      {"id", check.id},
                      {"about", check.about},
                      {"what", check.what},
                      {"remedy", check.remedy}});
  const OrderedJson document{{"subject", report.subject},
                             {"passed", count(report.checks, Verdict::kPass)},
                             {"failed", count(report.checks, Verdict::kFail)},
                             {"skipped", count(report.checks, Verdict::kSkip)},
                             {"checks", std::move(checks)}};
  return json_text(document, 2) + "\n";
}

std::string to_junit(const Report& report) {
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"tranche verify {}\" tests=\"{}\" failures=\"{}\" "
      "errors=\"0\" skipped=\"{}\">\n",
      xml(report.subject), report.checks.size(), count(report.checks, Verdict::kFail),
      count(report.checks, Verdict::kSkip));
  for (const Check& check : report.checks) {
    const std::string name = check.about.empty() ? check.id : check.id + " " + check.about;
    text += fmt::format("  <testcase classname=\"tranche.verify\" name=\"{}\">", xml(name));
    if (check.verdict == Verdict::kFail)
      text += fmt::format("<failure message=\"{}\">{}</failure>", xml(check.what), xml(with_remedy(check)));
    if (check.verdict == Verdict::kSkip) text += fmt::format("<skipped message=\"{}\"/>", xml(with_remedy(check)));
    if (check.verdict == Verdict::kPass) text += fmt::format("<system-out>{}</system-out>", xml(check.what));
    text += "</testcase>\n";
  }
  return text + "</testsuite>\n";
}

}  // namespace tranche::verify
