#include "programs/mig_manager/mig_manager_program.h"

#include <csignal>
#include <memory>
#include <optional>

#include "kubelet/pod_resources.h"
#include "mig/live/mig_manager.h"
#include "os/log/log.h"
#include "plan/plan.h"

namespace tranche::programs {
namespace {

using namespace std::chrono_literals;

constexpr Duration kKubeletDeadline = 3s;
constexpr Duration kAskAgain = 5s;  // while a change waits for a holder

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
    callbacks.emit_on_pod = [](const mig::MigUser&, const kube::Reason&, const std::string&) {};
    callbacks.make_way = [this](std::function<void()> ready) {
      resumed_ = false;
      operands_.pause([this, ready = std::move(ready)] { ask_kubelet(ready); });
    };
    mig::MigSettings settings;
    settings.options.enabled = true;
    settings.options.config_file = options_.config_file;
    settings.options.in_operators_place = true;
    settings.node_name = options_.node_name;
    settings.folder = options_.folder;
    settings.environment.insert(options_.environment.begin(), options_.environment.end());
    manager_ = std::make_unique<mig::MigManager>(loop_, *worker_, *link_, std::move(settings), std::move(callbacks));
    loop_.run();
    return 0;
  }

 private:
  void ask_kubelet(std::function<void()> then) {
    worker_->run([this, socket = options_.pod_resources_socket, asked = loop_.now(), then = std::move(then)] {
      auto listed = kubelet::list_pod_resources(socket, kKubeletDeadline);
      loop_.post([this, asked, then, listed = std::move(listed)]() mutable {
        on_listed(std::move(listed), asked);
        if (then) then();
      });
    });
  }

  void on_listed(Result<std::vector<kubelet::PodHolding>> listed, MonoTime asked) {
    mig::MigUse use;
    use.asked = asked;
    if (!listed)
      use.unknown = to_string(listed.error());
    else
      for (const auto& holding : *listed)
        for (const auto& slot : holding.slots)
          use.users[std::string(plan::device_of(slot))].push_back(
              {holding.pod_namespace, holding.pod, holding.container});
    manager_->use_is(std::move(use));
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
  mig::Operands operands_{loop_, options_.node_name, options_.operator_namespace};
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
