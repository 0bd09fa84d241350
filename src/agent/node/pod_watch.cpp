#include "agent/node/pod_watch.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host/log/log.h"
#include "kube/url.h"

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
      on_pods_(std::move(on_pods)),
      watch_(loop, client, "/api/v1/pods", settings_for(node, seed),
             {.on_page = [this](std::string_view body, bool first) { return on_page(body, first); },
              .on_line = [this](std::string_view line) { return on_line(line); },
              .on_turn = std::move(on_turn)}) {}

void PodWatch::tell(const kube::PodChanges& changes) {
  last_news_ = loop_.now();
  if (!changes.empty()) on_pods_(changes);
}

Result<host::ListPage> PodWatch::on_page(std::string_view body, bool first) {
  if (first) listed_.clear();
  TRY(auto page, kube::parse_pod_list(body));
  for (const auto& what : page.malformed) log::warning("kube.malformed", {{"what", what}});
  for (auto& pod : page.pods) listed_.push_back(std::move(pod));
  if (page.next.empty()) tell(table_.replace(std::exchange(listed_, {}), loop_.now()));
  return host::ListPage{page.resource_version, page.next};
}

Result<kube::WatchEvent> PodWatch::on_line(std::string_view line) {
  kube::PodChanges changes;
  auto event = kube::parse_watch_line(line, [&](kube::Change change, const nlohmann::json& object) -> Status {
    TRY(auto pod, kube::read_pod(object));
    changes = table_.apply(change, std::move(pod), loop_.now());
    return {};
  });
  if (event) tell(changes);
  return event;
}

}  // namespace tranche::agent
