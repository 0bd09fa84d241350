// Dynamic Resource Allocation: what a node that offers its GPUs to claims rests on.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/json_text.h"
#include "base/text.h"
#include "doctor/check/check.h"
#include "dra/claims_shown.h"
#include "kube/access.h"
#include "kube/object.h"

namespace tranche::doctor {
namespace {

using Seen = nlohmann::json;

namespace http = kube::http;

constexpr const char* kApi = "/apis/resource.k8s.io/v1";
constexpr std::ptrdiff_t kMostClaimsAsked = 100;

void check_agents_side(const DraLook& look, const Seen& status, Findings& findings) {
  if (!status.is_object())
    return findings.note("dra.agent", "", "the node agent does not answer, so its DRA driver is not checked",
                         "start tranche node, or name its directory with --run-dir");
  if (!status.contains("dra"))
    return findings.fail("dra.agent", look.config.driver_name,
                         "dra.devices is set, but the running node agent serves no claims",
                         "give the agent this configuration; `tranche status` names the one in effect");
  const auto faults = dra::serving_faults(status);
  for (const auto& fault : faults) findings.fail("dra.serving", look.config.driver_name, fault.what, fault.remedy);
  if (faults.empty())
    findings.pass("dra.serving", look.config.driver_name,
                  "slices are published, and kubelet has registered the driver");
}

void check_registration(const CheckOptions& options, Findings& findings) {
  const std::string path = options.kubelet_root + "/plugins_registry";
  findings.pass_or(Verdict::kFail, is_folder(options, path), "dra.kubelet", path,
                   "kubelet's directory for DRA drivers is there", "kubelet's directory for DRA drivers is not there",
                   "start kubelet, or mount the directory into this container (dra.enabled in the chart)");
}

void check_classes(const DraLook& look, Findings& findings) {
  const auto classes = look.ask(fmt::format("{}/deviceclasses", kApi));
  if (classes && classes->status == http::kForbidden)
    return findings.note("dra.classes", look.server, "this program has no permission to list device classes",
                         "use a kubeconfig that has it, or run: kubectl get deviceclasses");
  if (!classes || classes->status != http::kOk) return;
  const Seen listed = json_of(classes->body);
  std::vector<std::string> ours;
  for (const Seen& item : list_at(listed, "items")) {
    const auto& selectors = list_at(map_at(item, "spec"), "selectors");
    const bool names_driver = std::ranges::any_of(selectors, [&](const Seen& selector) {
      return text_at(map_at(selector, "cel"), "expression").contains(look.config.driver_name);
    });
    if (names_driver) ours.push_back(text_at(map_at(item, "metadata"), "name"));
  }
  findings.pass_or(Verdict::kFail, !ours.empty(), "dra.classes", look.config.driver_name,
                   "device classes: " + join(ours, ", "), "no DeviceClass selects devices of this driver",
                   "apply deploy/dra/classes.yaml, or set dra.enabled in the chart; with another dra.driverName, "
                   "the classes have to name it");
}

// Each request has a deadline of its own; the first that is not answered is the last.
void check_prepared(const DraLook& look, const Seen& status, Findings& findings) {
  for (const Seen& claim : list_at(map_at(status, "dra"), "claims") | std::views::take(kMostClaimsAsked)) {
    const std::string space = text_at(claim, "namespace"), name = text_at(claim, "name"), uid = text_at(claim, "uid");
    const auto answer = look.ask(fmt::format("{}/namespaces/{}/resourceclaims/{}", kApi, kube::percent_encoded(space),
                                             kube::percent_encoded(name)));
    if (!answer) return;
    const Seen object = json_of(answer->body);
    const bool gone = answer->status == http::kNotFound;
    if (!gone && (answer->status != http::kOk || text_at(map_at(object, "metadata"), "uid") == uid)) continue;
    findings.warn(
        "dra.claims", uid,
        fmt::format("the claim {}/{} is prepared here, and {}", space, name,
                    gone ? "its ResourceClaim no longer exists" : "a new ResourceClaim of that name exists"),
        "kubelet unprepares it when its last pod has ended; if no such pod runs (crictl pods), restart kubelet, which "
        "unprepares claims of pods that are gone");
  }
}

void check_server(const DraLook& look, const Seen& status, Findings& findings) {
  const auto group = look.ask(kApi);
  if (!group)
    return findings.note("dra.server", "", "the API server was not queried: " + to_string(group.error()),
                         "run it in a pod with a service account, or set KUBECONFIG");
  if (group->status == http::kNotFound)
    return findings.fail("dra.server", look.server, "the API server does not serve resource.k8s.io/v1",
                         "use Kubernetes 1.36.2 or later (docs/guide/dra.md#requirements)");
  if (group->status != http::kOk)
    return findings.note(
        "dra.server", look.server,
        fmt::format("the API server did not report whether it serves resource.k8s.io/v1 (status {})", group->status),
        "run: kubectl api-resources --api-group=resource.k8s.io");
  findings.pass("dra.server", look.server, "the API server serves resource.k8s.io/v1");
  check_classes(look, findings);
  check_prepared(look, status, findings);
}

}  // namespace

void check_dra(const CheckOptions& options, Findings& findings) {
  const DraLook& look = options.dra;
  const Seen status = json_of(options.agent_status);
  if (look.config.devices == config::DraDevices::kNone && list_at(map_at(status, "dra"), "claims").empty()) return;
  check_agents_side(look, status, findings);
  check_registration(options, findings);
  if (look.ask) check_server(look, status, findings);
}

}  // namespace tranche::doctor
