#include "doctor/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/terminal_text.h"
#include "base/text.h"

namespace tranche::doctor {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Wording {
  std::string_view counted, colour;
};
constexpr std::array<Wording, 5> kWordings{{{"passed", "32"},  // by Verdict
                                            {"noted", "33"},
                                            {"warned", "33"},
                                            {"failed", "1;31"},
                                            {"skipped", "33"}}};

const Wording& wording_of(Verdict verdict) {
  return kWordings.at(static_cast<std::size_t>(verdict));
}

std::size_t count(const Findings& findings, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(findings, verdict, &Finding::verdict));
}

// XML 1.0 has no way to write most control characters, and accepts UTF-8 only.
std::string xml(std::string_view text) {
  return in_markup(visible_text(text));
}

std::string with_remedy(const Finding& finding) {
  return finding.remedy.empty() ? finding.what : finding.what + "; " + finding.remedy;
}

}  // namespace

void Findings::add(Finding finding) {
  push_back(std::move(finding));
  if (on_add) on_add(back());
}

void Findings::pass_or(Verdict otherwise, bool passed, std::string id, std::string about, std::string what,
                       std::string what_else, std::string remedy) {
  if (passed) return pass(std::move(id), std::move(about), std::move(what));
  add({otherwise, std::move(id), std::move(about), std::move(what_else), std::move(remedy)});
}

int exit_status(const Findings& findings) {
  if (count(findings, Verdict::kFail) > 0) return 1;
  return count(findings, Verdict::kPass) > 0 ? 0 : 2;
}

std::string line_of(const Finding& finding, bool colour) {
  const std::string about = finding.about.empty() ? "" : finding.about + ": ";
  std::string text =
      fmt::format("{}  {:<20} {}{}\n", Pen{colour}(wording_of(finding.verdict).colour, to_string(finding.verdict)),
                  finding.id, visible_text(about), visible_text(finding.what));
  if (!finding.remedy.empty()) text += fmt::format("{:<26} → {}\n", "", visible_text(finding.remedy));
  return text;
}

std::string summary_of(const Report& report) {
  std::vector<std::string> counts;
  for (std::size_t n = 0; n < kWordings.size(); ++n)
    if (const auto number = count(report.findings, static_cast<Verdict>(n)); number > 0 || (n != 1 && n != 2))
      counts.push_back(fmt::format("{} {}", number, kWordings[n].counted));
  return report.subject + ": " + join(counts, ", ") + "\n";
}

std::string to_text(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings) text += line_of(finding, false);
  return text + summary_of(report);
}

std::string to_json(const Report& report) {
  OrderedJson document{{"subject", report.subject}};
  for (std::size_t n = 0; n < kWordings.size(); ++n)
    document[kWordings[n].counted] = count(report.findings, static_cast<Verdict>(n));
  document["checks"] = OrderedJson::array();
  for (const Finding& finding : report.findings)
    document["checks"].push_back({{"verdict", to_string(finding.verdict)},
                                  {"id", finding.id},
                                  {"about", finding.about},
                                  {"what", finding.what},
                                  {"remedy", finding.remedy}});
  return json_text(document, 2) + "\n";
}

std::string to_junit(const Report& report) {
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"tranche verify {}\" tests=\"{}\" failures=\"{}\" "
      "errors=\"0\" skipped=\"{}\">\n",
      xml(report.subject), report.findings.size(), count(report.findings, Verdict::kFail),
      count(report.findings, Verdict::kSkip));
  for (const Finding& finding : report.findings) {
    const std::string name = finding.about.empty() ? finding.id : finding.id + " " + finding.about;
    text += fmt::format("  <testcase classname=\"tranche.verify\" name=\"{}\">", xml(name));
    if (finding.verdict == Verdict::kFail)
      text += fmt::format("<failure message=\"{}\">{}</failure>", xml(finding.what), xml(with_remedy(finding)));
    else if (finding.verdict == Verdict::kSkip)
      text += fmt::format("<skipped message=\"{}\"/>", xml(with_remedy(finding)));
    else
      text += fmt::format("<system-out>{}</system-out>", xml(with_remedy(finding)));
    text += "</testcase>\n";
  }
  return text + "</testsuite>\n";
}

}  // namespace tranche::doctor
