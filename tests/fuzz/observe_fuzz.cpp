// The status document, read by the programs that show it.
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "doctor/finding.h"
#include "doctor/verify/checks.h"
#include "fuzz/target.h"
#include "observe/view/view.h"
#include "observe/web/web.h"
#include "observe/why/why.h"

using namespace tranche;

// Any text as a status document and as a kubelet state: a view or an Error.
FUZZ(status_view) {
  const auto half = text.find('\n');
  const auto status = text.substr(0, half);
  const auto kubelet = half == std::string_view::npos ? std::string_view() : text.substr(half + 1);
  (void)tranche::view::render(status, kubelet, {.colour = true});
  (void)tranche::view::render(status, kubelet, {.folded = true});
}

// Any text as a status document: a page in which nothing of it is markup.
FUZZ(web_page) {
  tranche::web::Shown shown;
  shown.nodes.push_back(tranche::web::make_node("n", text));
  shown.resources = tranche::web::resources_of(shown.nodes);
  const std::string page = tranche::web::page(shown);
  if (page.find("<script") != std::string::npos || page.find("<img") != std::string::npos) std::abort();
  (void)tranche::web::to_json(shown);
}

// Any text as a status document, and any name asked for: explanations or an Error, harmless to a terminal.
FUZZ(why) {
  const auto half = text.find('\n');  // the name comes first
  const auto status = half == std::string_view::npos ? std::string_view() : text.substr(half + 1);
  const auto found = tranche::why::explain(status, text.substr(0, half), {});
  if (!found) return;
  const std::string shown = tranche::why::render(*found, false, 80);
  for (const auto line : tranche::lines_of(shown))
    if (!tranche::fuzz::is_harmless(line)) std::abort();
  (void)tranche::why::to_json(*found);
}

// Any text as each of the documents that `tranche verify` judges: checks that can be rendered, and nothing passes for
// a document that is no object.
FUZZ(verify_checks) {
  namespace doctor = tranche::doctor;
  const std::string all(text);
  doctor::Report report{"this node", {}};
  const auto json = nlohmann::json::parse(all, nullptr, false);
  if (!json.is_discarded()) {
    doctor::check_agent(json, json, report.findings);
    doctor::check_node(json, report.findings);
    doctor::check_pod(json, "", report.findings);
    doctor::check_node_against_agent(json, json, report.findings);
    if (!json.is_object() && doctor::exit_status(report.findings) == 0) std::abort();
  }
  if (!json.is_discarded()) {
    const auto plan = doctor::plan_probe_pods(json);
    for (const auto& pod : plan.pods) (void)doctor::make_probe_pod(json, pod, {"n1", "p", "w", json});
    (void)doctor::run_of_pod(json);
  }
  if (const auto checks = doctor::checks_of_log(all))
    report.findings.insert(report.findings.end(), checks->begin(), checks->end());
  doctor::judge_neighbours({{.output = all}}, {"GPU-1"}, report.findings);
  const doctor::DeepGrant grant{"GPU-1", 1000, 12};
  const doctor::ProbeRun run{.output = all};
  doctor::judge_grant(grant, run, report.findings);
  doctor::judge_beyond("deep.memory.beyond", grant, "", run, report.findings);
  doctor::judge_second(grant, run, run, false, report.findings);
  doctor::judge_neighbour(grant, run, report.findings);
  doctor::judge_deaths(grant, {.deaths = 1, .neighbours = {run, run}}, report.findings);
  for (const auto& check : report.findings) (void)doctor::line_of(check, true);
  (void)doctor::to_json(report);
  (void)doctor::to_junit(report);
}
