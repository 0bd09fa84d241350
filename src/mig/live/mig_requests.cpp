#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "kube/node_condition.h"
#include "kube/object.h"
#include "kube/url.h"
#include "mig/live/mig_manager.h"
#include "os/log/log.h"

namespace tranche::mig {
namespace {

using namespace std::chrono_literals;

constexpr Duration kOperandPatience = 5min;  // NVIDIA's manager waits as long for each of them
constexpr Duration kPodsAgain = 1s;
constexpr std::array kKeys{"nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.gpu-feature-discovery",
                           "nvidia.com/gpu.deploy.dcgm-exporter", "nvidia.com/gpu.deploy.dcgm",
                           "nvidia.com/gpu.deploy.nvsm",          "nvidia.com/gpu.deploy.client"};
// The values of their label "app". Unlike NVIDIA's manager, the MPS pod is waited for: it holds the GPU.
constexpr const char* kApps =
    "nvidia-device-plugin-daemonset,nvidia-device-plugin-mps-control-daemon,gpu-feature-discovery,nvidia-dcgm-exporter,"
    "nvidia-dcgm";
constexpr const char* kValidators = "nvidia-operator-validator,nvidia-cuda-validator,nvidia-device-plugin-validator";
constexpr const char* kPausedOperand = "paused-for-mig-change";

std::string key_of(const MigUser& pod) {
  return pod.pod_namespace + "/" + pod.pod + "/" + pod.uid;
}

}  // namespace

Evictions::Evictions(os::Loop& loop, std::function<void(const MigUser&, bool, const std::string&)> on_result)
    : loop_(loop), on_result_(std::move(on_result)) {}

void Evictions::want(const std::vector<MigUser>& pods) {
  std::set<std::string> keys;
  for (const MigUser& pod : pods) keys.insert(key_of(pod));
  std::erase_if(entries_, [&](const auto& item) { return !keys.contains(item.first); });
  for (const MigUser& pod : pods) {
    const auto [at, fresh] = entries_.try_emplace(
        key_of(pod), Entry{pod, Backoff(1s, 30s, stable_hash(key_of(pod))), {}, std::make_unique<os::Timer>(loop_)});
    if (fresh) ask(at->second);
  }
}

void Evictions::ask(Entry& entry) {
  if (client_ == nullptr) return;
  nlohmann::json body{{"apiVersion", "policy/v1"},
                      {"kind", "Eviction"},
                      {"metadata", {{"name", entry.pod.pod}, {"namespace", entry.pod.pod_namespace}}}};
  if (!entry.pod.uid.empty()) body["deleteOptions"] = {{"preconditions", {{"uid", entry.pod.uid}}}};
  const std::string path = "/api/v1/namespaces/" + entry.pod.pod_namespace + "/pods/" + entry.pod.pod + "/eviction";
  entry.request =
      client_->create(path, json_text(body), [this, key = key_of(entry.pod)](const kube::KubeAnswer& answer) {
        const auto found = entries_.find(key);
        if (found == entries_.end()) return;
        Entry& one = found->second;
        const bool gone = answer.status == kube::http::kNotFound;
        const bool accepted = gone || kube::succeeded(answer);
        if (accepted && !gone) ++accepted_;
        std::string why;
        if (!accepted) {
          why = kube::why_not(answer);
          const Duration wait =
              std::max(one.backoff.next(), kube::status_of_body(answer.status, answer.body).retry_after);
          one.timer->start(wait, [this, key] {
            if (const auto again = entries_.find(key); again != entries_.end()) ask(again->second);
          });
        }
        const MigUser pod = one.pod;
        on_result_(pod, accepted, why);
      });
}

StateLabel::StateLabel(os::Loop& loop, std::string node, std::function<void()> on_written)
    : loop_(loop),
      node_(std::move(node)),
      on_written_(std::move(on_written)),
      backoff_(200ms, 1min, stable_hash(node_ + " mig")) {}

void StateLabel::is(const std::string& value) {
  if (request_.waits()) return;  // older than what is being written
  written_ = value;
  step();
}

void StateLabel::want(const std::string& value) {
  if (wanted_ != value) problem_.clear();
  wanted_ = value;
  step();
}

void StateLabel::step() {
  if (client_ == nullptr || request_.waits() || timer_.running() || wanted_.empty() || wanted_ == written_) return;
  const nlohmann::json patch{{"metadata", {{"labels", {{kMigStateLabel, wanted_}}}}}};
  request_ =
      client_->patch(kube::node_path(node_), json_text(patch), [this, value = wanted_](const kube::KubeAnswer& answer) {
        if (kube::succeeded(answer)) {
          backoff_.reset();
          problem_.clear();
          written_ = value;
          log::info("mig.state", {{"label", kMigStateLabel}, {"value", value}});
        } else {
          const std::string why = kube::why_not(answer);
          if (why != problem_) log::warning("mig.state_not_written", {{"value", value}, {"why", why}});
          problem_ = why.empty() ? "no answer" : why;
          timer_.start(backoff_.next(), [this] { step(); });
        }
        step();
        on_written_();
      });
}

Operands::Operands(os::Loop& loop, std::string node, std::string in_namespace)
    : loop_(loop),
      node_(std::move(node)),
      namespace_(std::move(in_namespace)),
      retries_(1s, 1min, stable_hash(node_ + " operands")) {}

void Operands::use(kube::KubeClient& client) {
  client_ = &client;
  step();
}

void Operands::pause(std::function<void()> gone) {
  gone_ = std::move(gone);
  pausing_ = true;
  settled_ = false;
  patience_.start(kOperandPatience, [this] {
    log::warning("mig.operands_stay", {{"problem", problem_}, {"namespace", namespace_}});
    settled_ = true;
    timer_.stop();
    if (gone_) std::exchange(gone_, {})();
  });
  step();
}

void Operands::resume(bool validate) {
  gone_ = {};
  patience_.stop();
  pausing_ = false;
  settled_ = false;
  validate_ = validate_ || validate;
  step();
}

void Operands::step() {
  timer_.stop();
  again_ = request_.waits();
  if (client_ == nullptr || request_.waits() || settled_) return;
  request_ = client_->get(kube::node_path(node_), [this](const kube::KubeAnswer& answer) {
    if (again_) return step();
    on_node(answer);
  });
}

void Operands::on_node(const kube::KubeAnswer& answer) {
  if (!kube::succeeded(answer)) return later("read the node", answer);
  const auto labels = kube::labels_of(json_of(answer.body));
  const char* from = pausing_ ? "true" : kPausedOperand;
  const char* to = pausing_ ? kPausedOperand : "true";
  nlohmann::json changes = nlohmann::json::object();
  for (const char* key : kKeys)
    if (const auto found = labels.find(key); found != labels.end() && found->second == from) changes[key] = to;
  if (changes.empty()) return pausing_ ? ask_pods() : validate();
  const nlohmann::json body{{"metadata", {{"labels", changes}}}};
  request_ = client_->patch(kube::node_path(node_), json_text(body), [this, changes](const kube::KubeAnswer& patched) {
    if (kube::succeeded(patched)) log::info("mig.operands", {{"labels", json_text(changes)}});
    if (again_) return step();
    if (!kube::succeeded(patched)) return later("label the node", patched);
    if (pausing_)
      ask_pods();
    else
      validate();
  });
}

std::string Operands::pods_path(const std::string& apps) const {
  return "/api/v1/namespaces/" + namespace_ + "/pods?fieldSelector=" + kube::percent_encoded("spec.nodeName=" + node_) +
         "&labelSelector=" + kube::percent_encoded("app in (" + apps + ")");
}

void Operands::ask_pods() {
  request_ = client_->list(pods_path(kApps), [this](const kube::KubeAnswer& answer) {
    if (again_) return step();
    on_pods(answer);
  });
}

void Operands::on_pods(const kube::KubeAnswer& answer) {
  if (!kube::succeeded(answer)) return later("list the operator's pods", answer);
  std::vector<std::string> names;
  const auto listed = kube::parse_list(answer.body, [&](const nlohmann::json& pod) -> Status {
    names.push_back(kube::name_of(pod));
    return {};
  });
  if (!listed || !names.empty()) {
    problem_ = listed ? "these pods have not ended: " + join(names, ", ") : to_string(listed.error());
    return timer_.start(kPodsAgain, [this] { step(); });
  }
  retries_.reset();
  problem_.clear();
  patience_.stop();
  settled_ = true;
  if (gone_) std::exchange(gone_, {})();
}

void Operands::validate() {
  retries_.reset();
  problem_.clear();
  settled_ = true;
  if (!std::exchange(validate_, false)) return;
  request_ = client_->remove(pods_path(kValidators), [this](const kube::KubeAnswer& answer) {
    if (!kube::succeeded(answer)) log::warning("mig.not_validated", {{"status", answer.status}, {"why", answer.why}});
    if (again_) step();
  });
}

void Operands::later(const std::string& doing, const kube::KubeAnswer& answer) {
  const std::string why = kube::why_not(answer);
  if (problem_ != why) log::warning("mig.operands_problem", {{"cannot", doing}, {"why", why}});
  problem_ = why;
  timer_.start(retries_.next(), [this] { step(); });
}

}  // namespace tranche::mig
