#include "cli/plan_pods.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "kube/client/list_pods.h"
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

Result<simulate::PodsRead> of_cluster(const PodsFrom& from, const config::Environment& environment) {
  simulate::PodsRead all;
  host::PersonsAccess person(from.kubeconfig, environment);
  const auto found = person.get();
  all.problems = person.problems();
  if (!found) return std::unexpected(found.error());
  const auto& access = *found;
  std::vector<std::string> selectors{"spec.nodeName="};  // pods that are not scheduled yet
  if (!from.node_name.empty()) selectors.insert(selectors.begin(), "spec.nodeName=" + from.node_name);
  TRY(const auto pages, host::list_pods(access, selectors));
  for (const auto& page : pages) {
    auto read = simulate::read_pod_page(page, access.server.url());
    std::ranges::move(read.pods, std::back_inserter(all.pods));
    std::ranges::move(read.problems, std::back_inserter(all.problems));
  }
  sort_by_arrival(all.pods);
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
