#include "kube/live/pod_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "kube/url.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

kube::ReflectorSettings settings_for(const std::string& node, std::uint64_t seed) {
  kube::ReflectorSettings settings;
  settings.selector = "fieldSelector=" + kube::percent_encoded("spec.nodeName=" + node);
  settings.seed = seed;
  return settings;
}

}  // namespace

PodWatch::PodWatch(host::Loop& loop, host::KubeClient& client, const std::string& node, std::uint64_t seed,
                   std::function<void(const kube::PodChanges&)> on_pods, std::function<void()> on_turn)
    : loop_(loop),
      node_(node),
      on_pods_(std::move(on_pods)),
      watch_(loop, client, "/api/v1/pods", settings_for(node, seed),
             {.on_page = [this](std::string_view body, bool first) { return on_page(body, first); },
              .on_line = [this](std::string_view line) { return on_line(line); },
              .on_turn =
                  [this, on_turn = std::move(on_turn)] {
                    hand_on();
                    on_turn();
                  }}) {}

void PodWatch::apply(kube::PodChanges changes) {
  last_event_ = loop_.now();
  std::ranges::move(changes, std::back_inserter(changes_));
}

void PodWatch::hand_on() {
  if (!changes_.empty()) on_pods_(std::exchange(changes_, {}));
}

// A server, or a proxy in front of it, may ignore the selector.
bool PodWatch::concerns_us(const kube::PodSeen& pod) const {
  return pod.node_name == node_;
}

Result<host::ListPage> PodWatch::on_page(std::string_view body, bool first) {
  if (first) {
    listed_.clear();
    pages_ = 0;
  }
  TRY(auto page, kube::parse_pod_list(body));
  for (const auto& what : page.malformed) log::warning("kube.malformed", {{"what", what}});
  for (auto& pod : page.pods)
    if (concerns_us(pod)) listed_.push_back(std::move(pod));
  if (++pages_ > kMostPages || listed_.size() > kMostPods) {
    listed_ = {};
    return fail(Kind::kInvalid,
                fmt::format("the API server lists more than {} pods of this node, or more than {} pages", kMostPods,
                            kMostPages));
  }
  if (page.next.empty()) apply(table_.replace(std::exchange(listed_, {})));
  return host::ListPage{page.resource_version, page.next};
}

Result<kube::WatchEvent> PodWatch::on_line(std::string_view line) {
  kube::PodChanges changes;
  auto event = kube::parse_watch_line(line, [&](kube::Change change, const nlohmann::json& object) -> Status {
    TRY(auto pod, kube::read_pod(object));
    if (!concerns_us(pod)) return {};
    if (table_.size() >= kMostPods && table_.find(pod.pod_namespace, pod.name) == nullptr)
      return fail(Kind::kInvalid, fmt::format("the API server reports more than {} pods of this node", kMostPods));
    changes = table_.apply(change, std::move(pod));
    return {};
  });
  if (event) apply(std::move(changes));
  return event;
}

}  // namespace tranche::agent
