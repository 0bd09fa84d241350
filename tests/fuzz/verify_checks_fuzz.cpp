// Any text as each of the documents that `tranche verify` judges: checks that can be rendered, and nothing passes for
// a document that is no object.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "doctor/finding.h"
#include "doctor/verify/check_groups.h"
#include "doctor/verify/deep.h"
#include "doctor/verify/probe_pods.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace verify = tranche::verify;
  namespace doctor = tranche::doctor;
  const std::string text(reinterpret_cast<const char*>(data), size);
  doctor::Report report{"this node", {}};
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_discarded()) {
    verify::check_agent(json, json, report.findings);
    verify::check_node(json, report.findings);
    verify::check_pod(json, "", report.findings);
    verify::check_node_against_agent(json, json, report.findings);
    if (!json.is_object() && doctor::exit_status(report.findings) == 0) std::abort();
  }
  if (!json.is_discarded()) {
    const auto plan = verify::plan_probe_pods(json);
    for (const auto& pod : plan.pods) (void)verify::make_probe_pod(json, pod, {"n1", "p", "w", json});
    (void)verify::view_pod(json);
  }
  if (const auto checks = verify::checks_of_log(text))
    report.findings.insert(report.findings.end(), checks->begin(), checks->end());
  verify::judge_neighbours({{.output = text}}, {"GPU-1"}, report.findings);
  const verify::DeepGrant grant{"GPU-1", 1000, 12};
  const verify::ProbeRun run{.output = text};
  verify::judge_grant(grant, run, report.findings);
  verify::judge_beyond("deep.memory.beyond", grant, "", run, report.findings);
  verify::judge_second(grant, run, run, false, report.findings);
  verify::judge_neighbour(grant, run, report.findings);
  verify::judge_deaths(grant, {.deaths = 1, .neighbours = {run, run}}, report.findings);
  for (const auto& check : report.findings) (void)doctor::line_of(check, true);
  (void)doctor::to_json(report);
  (void)doctor::to_junit(report);
  return 0;
}
