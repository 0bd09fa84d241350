#include "cli/plan_pods.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "kube/client/ask_once.h"
#include "kube/client/find_access.h"
#include "kube/client/list_pods.h"
#include "kube/http_status.h"
#include "os/files/files.h"

namespace tranche::cli {
namespace {

constexpr const char* kCluster = "cluster";
constexpr const char* kStandardInput = "/dev/stdin";

void sort_by_arrival(std::vector<simulate::PodAsk>& pods) {
  const auto rank = [](const simulate::PodAsk& pod) {
    return std::tuple(pod.node_name.empty(), std::string_view(pod.created), std::string_view(pod.pod_namespace),
                      std::string_view(pod.name));
  };
  std::ranges::sort(pods, [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

// Claims, templates and classes; what is odd about one of them is a warning, for the API server has accepted it.
void add_objects(const kube::Access& access, simulate::PodsRead& all) {
  for (const char* kind : {"resourceclaims", "resourceclaimtemplates", "deviceclasses"}) {
    const auto answer = host::get_once(access, std::string("/apis/resource.k8s.io/v1/") + kind);
    if (!answer || answer->status != kube::http::kOk) {
      const std::string why = answer ? std::to_string(answer->status) : to_string(answer.error());
      all.problems.push_back({Severity::kWarning,
                              {access.server.url(), 0, 0},
                              kind,
                              "are not read (" + why + "), and pods have claims",
                              "use an account that may list them, or give the objects in a file"});
      continue;
    }
    auto read = simulate::read_pod_page(answer->body, access.server.url());
    all.objects.claims.merge(read.objects.claims);
    all.objects.templates.merge(read.objects.templates);
    all.objects.classes.merge(read.objects.classes);
    for (auto& problem : read.problems) {
      problem.severity = Severity::kWarning;
      all.problems.push_back(std::move(problem));
    }
  }
}

Result<simulate::PodsRead> of_cluster(const PodsFrom& from, const config::Environment& environment) {
  simulate::PodsRead all;
  const auto variable = environment.find("KUBECONFIG");
  const std::string& kubeconfig =
      from.kubeconfig.empty() && variable != environment.end() ? variable->second : from.kubeconfig;
  TRY(const auto access, host::find_access(kubeconfig, environment, all.problems));
  std::vector<std::string> selectors{"spec.nodeName="};  // pods that are not scheduled yet
  if (!from.node_name.empty()) selectors.insert(selectors.begin(), "spec.nodeName=" + from.node_name);
  TRY(const auto pages, host::list_pods(access, selectors));
  for (const auto& page : pages) {
    auto read = simulate::read_pod_page(page, access.server.url());
    std::ranges::move(read.pods, std::back_inserter(all.pods));
    std::ranges::move(read.problems, std::back_inserter(all.problems));
  }
  sort_by_arrival(all.pods);
  if (std::ranges::any_of(all.pods, [](const auto& pod) { return !pod.claims.empty(); })) add_objects(access, all);
  return all;
}

}  // namespace

Result<simulate::PodsRead> load_pods(const PodsFrom& from, const config::Environment& environment) {
  if (from.where == kCluster) return of_cluster(from, environment);
  const bool piped = from.where == "-";
  TRY(const auto text, host::read_file(piped ? kStandardInput : from.where, simulate::kLargestPodsFile));
  return simulate::read_pods(text, piped ? "standard input" : from.where);
}

}  // namespace tranche::cli
