#include "programs/mig_manager/mig_manager_program.h"

#include <array>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "base/text.h"
#include "base/time.h"
#include "kube/access.h"
#include "kube/object.h"
#include "kubelet/pod_resources.h"
#include "os/log/log.h"
#include "plan/plan.h"

namespace tranche::programs {
namespace {

using namespace std::chrono_literals;

constexpr Duration kKubeletDeadline = 3s;
constexpr Duration kAskAgain = 5s;           // while a change waits for a holder
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

// The operator's pods that hold GPUs on this node: taken away by the labels that place them while a change is made
// (nvidia.com/gpu.deploy.* from "true" to "paused-for-mig-change"), and put back. Labels that an administrator has set
// to a different value stay. The labels themselves show which pods are paused, so the next program restores those of a
// killed one.
class Operands {
 public:
  // in_namespace: of the operator's pods.
  Operands(os::Loop& loop, std::string node, std::string in_namespace)
      : node_(std::move(node)),
        namespace_(std::move(in_namespace)),
        timer_(loop),
        patience_(loop),
        retries_(1s, 1min, stable_hash(node_ + " operands")) {}

  void use(kube::KubeClient& client) {
    client_ = &client;
    step();
  }

  // gone: the pods have ended, or five minutes are over; a callback of its own.
  void pause(std::function<void()> gone) {
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

  // validate: the operator's validators run again, as after each change.
  void resume(bool validate) {
    gone_ = {};
    patience_.stop();
    pausing_ = false;
    settled_ = false;
    validate_ = validate_ || validate;
    step();
  }

 private:
  void step() {
    timer_.stop();
    again_ = request_.waits();
    if (client_ == nullptr || request_.waits() || settled_) return;
    request_ = client_->get(kube::node_path(node_), [this](const kube::KubeAnswer& answer) {
      if (again_) return step();
      on_node(answer);
    });
  }

  void on_node(const kube::KubeAnswer& answer) {
    if (!kube::succeeded(answer)) return later("read the node", answer);
    const auto labels = kube::labels_of(json_of(answer.body));
    const char* from = pausing_ ? "true" : kPausedOperand;
    const char* to = pausing_ ? kPausedOperand : "true";
    nlohmann::json changes = nlohmann::json::object();
    for (const char* key : kKeys)
      if (const auto found = labels.find(key); found != labels.end() && found->second == from) changes[key] = to;
    if (changes.empty()) return pausing_ ? ask_pods() : validate();
    const nlohmann::json body{{"metadata", {{"labels", changes}}}};
    request_ =
        client_->patch(kube::node_path(node_), json_text(body), [this, changes](const kube::KubeAnswer& patched) {
          if (kube::succeeded(patched)) log::info("mig.operands", {{"labels", json_text(changes)}});
          if (!again_ && !kube::succeeded(patched)) return later("label the node", patched);
          step();
        });
  }

  std::string pods_path(const std::string& apps) const {
    return "/api/v1/namespaces/" + namespace_ +
           "/pods?fieldSelector=" + kube::percent_encoded("spec.nodeName=" + node_) +
           "&labelSelector=" + kube::percent_encoded("app in (" + apps + ")");
  }

  void ask_pods() {
    request_ = client_->list(pods_path(kApps), [this](const kube::KubeAnswer& answer) {
      if (again_) return step();
      if (!kube::succeeded(answer)) return later("list the operator's pods", answer);
      std::vector<std::string> names;
      const auto listed =
          kube::parse_list(answer.body, [&](const nlohmann::json& pod) { names.push_back(kube::name_of(pod)); });
      if (!listed || !names.empty()) {
        problem_ = listed ? "these pods have not ended: " + join(names, ", ") : to_string(listed.error());
        return timer_.start(kPodsAgain, [this] { step(); });
      }
      settle();
      patience_.stop();
      if (gone_) std::exchange(gone_, {})();
    });
  }

  void settle() {
    retries_.reset();
    problem_.clear();
    settled_ = true;
  }

  void validate() {
    settle();
    if (!std::exchange(validate_, false)) return;
    request_ = client_->remove(pods_path(kValidators), [this](const kube::KubeAnswer& answer) {
      if (!kube::succeeded(answer)) log::warning("mig.not_validated", {{"status", answer.status}, {"why", answer.why}});
      if (again_) step();
    });
  }

  void later(const std::string& doing, const kube::KubeAnswer& answer) {
    const std::string why = kube::why_not(answer);
    if (problem_ != why) log::warning("mig.operands_problem", {{"cannot", doing}, {"why", why}});
    problem_ = why;
    timer_.start(retries_.next(), [this] { step(); });
  }

  std::string node_, namespace_;
  kube::KubeClient* client_ = nullptr;
  kube::PendingRequest request_;
  os::Timer timer_, patience_;
  Backoff retries_;
  bool pausing_ = false;  // else: resuming, until `settled_`
  bool settled_ = true;
  bool again_ = false;  // pause() or resume() came while a call was under way
  bool validate_ = false;
  std::function<void()> gone_;
  std::string problem_;
};

class MigProgram {
 public:
  MigProgram(const MigManagerOptions& options, os::Loop& loop) : options_(options), loop_(loop) {}

  Result<int> run() {
    TRY_STATUS(loop_.on_signals({SIGTERM, SIGINT, SIGQUIT}, [this](int) { loop_.stop(); }));
    worker_ = os::Worker::start();  // with these signals blocked
    link_ = std::make_unique<kube::KubeLink>(loop_, *worker_, options_.kubeconfig, options_.environment);
    link_->when_settled([this] {
      if (auto* client = link_->client()) operands_.use(*client);
    });
    if (options_.reboot_asked)
      log::warning("mig.no_reboot", {{"what", "WITH_REBOOT has no effect: this program does not restart nodes"}});
    if (options_.host_clients_asked)
      log::warning("mig.no_host_clients", {{"what",
                                            "WITH_SHUTDOWN_HOST_GPU_CLIENTS has no effect: this program stops no units "
                                            "of the host; what holds a GPU is named"}});
    mig::MigManager::Callbacks callbacks;
    callbacks.driver = [this] {
      gpu::NvmlSettings settings;
      settings.driver_root = options_.driver_root;
      return settings;
    };
    callbacks.ask_use = [this] { ask_kubelet({}); };
    callbacks.changed = [this] { on_changed(); };
    callbacks.rescan = [this] { loop_.post([this] { manager_->on_inventory(); }); };
    callbacks.driver_is_ours = [](bool) {};  // it is open only while a thread works with it
    callbacks.emit_on_node = [](const kube::Reason&, const std::string&) {};
    callbacks.emit_on_pod = [](const mig::Holder&, const kube::Reason&, const std::string&) {};
    callbacks.make_way = [this](std::function<void()> ready) {
      resumed_ = false;
      operands_.pause([this, ready = std::move(ready)] { ask_kubelet(ready); });
    };
    options_.mig.environment = {options_.environment.begin(), options_.environment.end()};
    manager_ = std::make_unique<mig::MigManager>(loop_, *worker_, *link_, options_.mig, std::move(callbacks));
    loop_.run();
    return 0;
  }

 private:
  void ask_kubelet(std::function<void()> then) {
    worker_->run(loop_, [this, socket = options_.pod_resources_socket, asked = loop_.now(), then = std::move(then)] {
      return [this, asked, then, listed = kubelet::list_pod_resources(socket, kKubeletDeadline)] {
        mig::MigUse use{.unknown = listed ? "" : to_string(listed.error()), .users = {}, .asked = asked};
        for (const auto& holding : listed.value_or(std::vector<grants::Held>()))
          for (const auto& slot : holding.slots)
            use.users[std::string(plan::device_of(slot))].push_back(
                mig::pod_holder(holding.pod_namespace, holding.pod, holding.container));
        manager_->use_is(std::move(use));
        if (then) then();
      };
    });
  }

  void on_changed() {
    if (!manager_) return;
    const mig::MigReport& report = manager_->report();
    const bool waits = report.state == "pending" && report.reason == "Waiting";
    if (!waits)
      ask_again_.stop();
    else if (!ask_again_.running())
      ask_again_.start(kAskAgain, [this] { ask_kubelet([this] { on_changed(); }); });
    const bool rests = waits || report.state == "success" || report.state == "failed" || report.state == "idle";
    if (!rests || resumed_ == true) return;
    resumed_ = true;
    const bool changed = report.changes != std::exchange(validated_, report.changes);
    operands_.resume(changed);
  }

  MigManagerOptions options_;
  os::Loop& loop_;
  std::unique_ptr<os::Worker> worker_;
  std::unique_ptr<kube::KubeLink> link_;
  Operands operands_{loop_, options_.mig.node_name, options_.operator_namespace};
  std::unique_ptr<mig::MigManager> manager_;
  os::Timer ask_again_{loop_};
  std::optional<bool> resumed_;  // absent: it is not known what an earlier program has paused
  std::uint64_t validated_ = 0;  // changes
};

}  // namespace

int run_mig_manager(const MigManagerOptions& options) {
  const auto loop = os::Loop::open();
  const auto ran = loop ? MigProgram(options, **loop).run() : std::unexpected(loop.error());
  if (!ran) log::error("start.failed", {{"why", ran.error()}});
  return ran.value_or(1);
}

}  // namespace tranche::programs
