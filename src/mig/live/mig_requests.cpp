#include "mig/live/mig_requests.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "base/text.h"
#include "kube/api_status.h"
#include "kube/node_condition.h"
#include "mig/live/mig_options.h"
#include "os/log/log.h"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;

std::string key_of(const Evictions::Pod& pod) {
  return pod.pod_namespace + "/" + pod.name + "/" + pod.uid;
}

}  // namespace

bool succeeded(const host::KubeAnswer& answer) {
  return answer.status >= 200 && answer.status < 300;
}

std::string why_not(const host::KubeAnswer& answer) {
  return answer.status >= 400 ? kube::status_of_body(answer.status, answer.body).message : answer.why;
}

Evictions::Evictions(host::Loop& loop, std::function<void(const Pod&, bool, const std::string&)> on_result)
    : loop_(loop), on_result_(std::move(on_result)) {}

Evictions::~Evictions() {
  if (client_ == nullptr) return;
  for (const auto& [key, entry] : entries_) client_->cancel(entry.call);
}

void Evictions::want(const std::vector<Pod>& pods) {
  std::set<std::string> keys;
  for (const Pod& pod : pods) keys.insert(key_of(pod));
  std::erase_if(entries_, [&](const auto& item) {
    if (keys.contains(item.first)) return false;
    if (client_ != nullptr) client_->cancel(item.second.call);
    return true;
  });
  for (const Pod& pod : pods) {
    const auto [at, fresh] = entries_.try_emplace(key_of(pod), Entry{pod, Backoff(1s, 30s, stable_hash(key_of(pod))), 0,
                                                                     false, std::make_unique<host::Timer>(loop_)});
    if (fresh) ask(at->second);
  }
}

void Evictions::ask(Entry& entry) {
  if (client_ == nullptr) return;
  nlohmann::json body{{"apiVersion", "policy/v1"},
                      {"kind", "Eviction"},
                      {"metadata", {{"name", entry.pod.name}, {"namespace", entry.pod.pod_namespace}}}};
  if (!entry.pod.uid.empty()) body["deleteOptions"] = {{"preconditions", {{"uid", entry.pod.uid}}}};
  const std::string path = "/api/v1/namespaces/" + entry.pod.pod_namespace + "/pods/" + entry.pod.name + "/eviction";
  entry.call = client_->create(path, json_text(body), [this, key = key_of(entry.pod)](const host::KubeAnswer& answer) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    Entry& one = found->second;
    one.call = 0;
    const bool gone = answer.status == kube::http::kNotFound;
    one.accepted = gone || succeeded(answer);
    if (one.accepted && !gone) ++accepted_;
    std::string why;
    if (!one.accepted) {
      why = why_not(answer);
      const Duration wait = std::max(one.backoff.next(), kube::status_of_body(answer.status, answer.body).retry_after);
      one.timer->start(wait, [this, key] {
        if (const auto again = entries_.find(key); again != entries_.end()) ask(again->second);
      });
    }
    const Pod pod = one.pod;
    on_result_(pod, one.accepted, why);
  });
}

StateLabel::StateLabel(host::Loop& loop, std::string node, std::function<void()> on_written)
    : loop_(loop),
      node_(std::move(node)),
      on_written_(std::move(on_written)),
      backoff_(200ms, 1min, stable_hash(node_ + " mig")) {}

StateLabel::~StateLabel() {
  if (client_ != nullptr) client_->cancel(call_);
}

void StateLabel::is(const std::string& value) {
  if (call_ != 0) return;  // older than what is being written
  written_ = value;
  step();
}

void StateLabel::want(const std::string& value) {
  if (wanted_ != value) problem_.clear();
  wanted_ = value;
  step();
}

void StateLabel::step() {
  if (client_ == nullptr || call_ != 0 || timer_.running() || wanted_.empty() || wanted_ == written_) return;
  const nlohmann::json patch{{"metadata", {{"labels", {{kMigStateLabel, wanted_}}}}}};
  call_ =
      client_->patch(kube::node_path(node_), json_text(patch), [this, value = wanted_](const host::KubeAnswer& answer) {
        call_ = 0;
        if (succeeded(answer)) {
          backoff_.reset();
          problem_.clear();
          written_ = value;
          log::info("mig.state", {{"label", kMigStateLabel}, {"value", value}});
        } else {
          const std::string why = why_not(answer);
          if (why != problem_) log::warning("mig.state_not_written", {{"value", value}, {"why", why}});
          problem_ = why.empty() ? "no answer" : why;
          timer_.start(backoff_.next(), [this] { step(); });
        }
        step();
        on_written_();
      });
}

}  // namespace tranche::agent
