#include "node/grants/holdings.h"

#include <algorithm>
#include <set>

namespace tranche::node {
namespace {

using namespace std::chrono_literals;

constexpr Duration kKubeletDeadline = 3s;
constexpr Duration kEvery = 30s;
constexpr Duration kEveryWhenReported = 5min;
constexpr Duration kFirstBehind = 100ms;

}  // namespace

Holdings::Holdings(os::Loop& loop, os::Worker& worker, std::string socket, OnListed on_listed)
    : loop_(loop), worker_(worker), socket_(std::move(socket)), on_listed_(std::move(on_listed)) {}

void Holdings::ask_in(Duration delay) {
  timer_.start(delay, [this] { ask(); });
}

void Holdings::ask() {
  if (asked_) {
    again_ = true;
    return;
  }
  asked_ = true;
  worker_.run([this, socket = socket_, asked = loop_.now()] {
    auto listed = kubelet::list_pod_resources(socket, kKubeletDeadline);
    loop_.post([this, asked, listed = std::move(listed)]() mutable {
      asked_ = false;
      if (listed) answer_of_ = asked;
      on_listed_(std::move(listed));
    });
  });
}

void Holdings::settle(bool behind, bool pods_reported) {
  behind_wait_ = !behind ? Duration::zero() : std::clamp<Duration>(behind_wait_ * 2, kFirstBehind, kEvery);
  if (std::exchange(again_, false)) return ask();
  ask_in(behind ? behind_wait_ : pods_reported ? kEveryWhenReported : kEvery);
}

bool LatePods::complete(std::vector<kubelet::PodHolding>& listed, const std::vector<kubelet::PodHolding>& before,
                        const kube::PodTable& pods) {
  std::set<Key> there;
  std::set<std::pair<std::string, std::string>> held;  // resource, slot
  for (const auto& holding : listed) {
    there.emplace(holding.pod_namespace, holding.pod);
    for (const auto& slot : holding.slots) held.emplace(holding.resource, slot);
  }
  std::map<Key, std::string> uids;
  const auto remember = [&](const Key& key, const kube::PodSeen* pod) {
    if (pod != nullptr) uids.emplace(key, pod->uid);
  };
  for (const auto& key : there) remember(key, pods.find(key.first, key.second));
  bool late = false;
  for (const auto& holding : before) {
    const Key key{holding.pod_namespace, holding.pod};
    const auto known = uids_.find(key);
    if (there.contains(key) || known == uids_.end()) continue;
    const auto* pod = pods.find(key.first, key.second);
    if (pod == nullptr || pod->over() || pod->uid != known->second) continue;
    if (std::ranges::any_of(holding.slots, [&](const auto& slot) { return held.contains({holding.resource, slot}); }))
      continue;
    listed.push_back(holding);
    remember(key, pod);
    late = true;
  }
  uids_ = std::move(uids);
  return late;
}

}  // namespace tranche::node
