#include "agent/node/node_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "agent/config/config_source.h"
#include "agent/config/driver_settings.h"
#include "agent/node/answers.h"
#include "agent/node/cdi_specs.h"
#include "agent/node/client_grants.h"
#include "agent/node/device_nodes.h"
#include "agent/node/gpu_health.h"
#include "agent/node/node_log.h"
#include "agent/node/pages.h"
#include "agent/node/reports.h"
#include "agent/node/snapshot.h"
#include "host/files/files.h"
#include "host/http/http.h"
#include "host/kubelet/loop_gate.h"
#include "host/kubelet/plugin_host.h"
#include "host/kubelet/pod_resources.h"
#include "host/log/log.h"
#include "host/loop/loop.h"
#include "host/nvml/nvml.h"
#include "host/status/status_socket.h"
#include "host/worker/worker.h"
#include "inventory/compare.h"
#include "label/label.h"
#include "plan/make_plan.h"
#include "plan/stale.h"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHoldingsDeadline = 3s;
constexpr Duration kHoldingsEvery = 30s;         // what kubelet frees is told to nobody, so ask now and then
constexpr Duration kHoldingsAfterGrant = 300ms;  // kubelet records a grant a little after our answer
constexpr Duration kUseFreshFor = 400ms;
constexpr Duration kAnsweredWait = 50ms;  // the log may be late, the next answer may not

class NodeProgram {
 public:
  explicit NodeProgram(const NodeOptions& options)
      : options_(options),
        config_(options.flags, options.environment, options.unknown_keys),
        health_(options.environment, {options.health_quiet_period}) {}

  int run();

 private:
  Status open();
  void open_driver();  // again when the configuration says to look for it elsewhere
  void turn();         // facts → plan → advertised → everyone who shows or serves it
  void plan_again();
  void publish();
  std::map<std::string, health::Unhealthy> node_faults() const;
  void arm_health_timer();
  const inventory::Inventory& known_inventory() const;  // an empty one while there is no driver

  void on_inventory(const Result<inventory::Inventory>& scanned);
  void on_gpu_event(const host::GpuEvent& event);
  void on_use(const Result<std::vector<host::GpuUse>>& use);
  void on_pools(const std::string& line);
  void on_answered();
  void ask_holdings();
  void ask_holdings_soon(Duration delay);
  Result<std::string> answer(const std::string& request);

  NodeOptions options_;
  std::unique_ptr<host::Loop> loop_;
  ConfigSource config_;
  GpuHealth health_;
  host::Loop::Id health_timer_ = 0;
  host::Loop::Id holdings_timer_ = 0;
  bool holdings_asked_ = false;
  bool stopping_ = false;
  MonoTime use_wanted_{};  // by somebody who looks at the status
  Snapshot state_;         // the loop's own copy; SnapshotBox holds what others read
  SnapshotBox box_;

  host::NvmlSettings driver_settings_;
  std::unique_ptr<DeviceNodes> nodes_;
  std::unique_ptr<host::LoopGate> answered_;
  std::unique_ptr<NodeAnswers> answers_;
  std::unique_ptr<host::Worker> worker_;
  std::unique_ptr<CdiSpecs> cdi_;
  std::unique_ptr<host::NvmlThread> nvml_;
  std::unique_ptr<host::PluginHost> plugins_;
  std::unique_ptr<host::StatusServer> status_;
  std::unique_ptr<host::StatusWatcher> pools_;
  std::unique_ptr<host::HttpServer> http_;
};

std::string host_mps_root(const config::Config& config) {
  return config.flags.mps_root.empty() ? "/run/nvidia/mps" : config.flags.mps_root;
}

// Without --kubelet-socket, kubelet's socket is where ours go; with an empty one there is no registration (NVIDIA's
// rule).
host::PluginHostSettings plugin_settings(const NodeOptions& options, const config::PluginRun& run, MonoTime now) {
  host::PluginHostSettings settings;
  // Any two nodes that start together differ in this, so their attempts drift apart.
  settings.seed = static_cast<std::uint64_t>(now.time_since_epoch().count()) ^ static_cast<std::uint64_t>(::getpid());
  settings.plugin_dir = options.plugin_dir;
  settings.register_with_kubelet = !run.kubelet_socket.empty();
  if (run.kubelet_socket != config::PluginRun{}.kubelet_socket) settings.kubelet_socket = run.kubelet_socket;
  return settings;
}

Status NodeProgram::open() {
  auto run_dir = host::Dir::create(options_.run_dir, 0755);
  if (!run_dir) return std::unexpected(within(std::move(run_dir).error(), "cannot make the run directory (--run-dir)"));

  const std::string host_root = host_mps_root(config_.view().config);
  const std::string mps_here = options_.mps_root_here.empty() ? host_root : options_.mps_root_here;
  worker_ = host::Worker::start();
  cdi_ = std::make_unique<CdiSpecs>(
      *loop_, *worker_, CdiOptions{.cdi_root = options_.cdi_root, .driver_root_here = options_.driver_root_here},
      [this] {
        if (!stopping_) publish();
      });
  answered_ = std::make_unique<host::LoopGate>(*loop_, [this] { on_answered(); }, kAnsweredWait);
  answers_ = std::make_unique<NodeAnswers>(box_, mps_here, [this] { answered_->knock(); });
  auto plugins =
      host::PluginHost::open(*loop_, plugin_settings(options_, config_.view().run, loop_->now()), *answers_, [this] {
        if (!stopping_) publish();
      });
  if (!plugins)
    return std::unexpected(
        within(std::move(plugins).error(), "cannot use kubelet's device plugin directory (--plugin-dir)"));
  plugins_ = *std::move(plugins);
  // During a rolling update the older agent may still answer there.
  TRY(status_,
      host::StatusServer::open(*loop_, options_.run_dir + "/node.sock",
                               [this](const std::string& request) { return answer(request); }, {.take_over = true}));
  pools_ =
      host::StatusWatcher::open(*loop_, mps_here + "/mps.sock", [this](const std::string& line) { on_pools(line); });
  if (!options_.listen.empty()) {
    TRY(http_, host::HttpServer::open(options_.listen, node_pages(box_)));
    log::info("http.listening", {{"address", http_->address()}});
  }
  nodes_ = std::make_unique<DeviceNodes>(*loop_, [this] {
    plan_again();
    turn();
  });
  open_driver();
  return {};
}

void NodeProgram::open_driver() {
  auto settings = driver_settings(config_.view().config.flags, options_.driver_root_here);
  settings.fault_events = !health_.off();
  if (nvml_ && settings == driver_settings_) return;
  driver_settings_ = std::move(settings);
  nvml_.reset();
  nvml_ = host::NvmlThread::start(*loop_, driver_settings_,
                                  {.on_inventory = [this](const auto& scanned) { on_inventory(scanned); },
                                   .on_event = [this](const auto& event) { on_gpu_event(event); },
                                   .on_use = [this](const auto& use) { on_use(use); }});
}

int NodeProgram::run() {
  if (has_error(config_.view().problems)) {
    for (const auto& problem : config_.view().problems) fmt::print(stderr, "{}\n", to_string(problem));
    return 2;
  }
  log_problems(config_.view().problems);
  log_effective(config_.view());
  health_.log_settings();

  auto loop = host::Loop::open();
  if (!loop) {
    log::error("start.failed", {{"why", loop.error()}});
    return 1;
  }
  loop_ = *std::move(loop);
  const auto signals = loop_->on_signals({SIGTERM, SIGINT, SIGQUIT, SIGHUP}, [this](int number) {
    if (number == SIGHUP) {
      log::info("config.reload", {{"because", "SIGHUP"}});
      config_.reload();
      return;
    }
    log::info("stop.asked", {{"signal", number}});
    loop_->stop();
  });
  if (!signals) {
    log::error("start.failed", {{"why", signals.error()}});
    return 1;
  }
  if (const auto opened = open(); !opened) {
    log::error("start.failed", {{"why", opened.error()}});
    return 1;
  }
  if (const auto followed = config_.follow(*loop_,
                                           [this] {
                                             log_problems(config_.view().problems);
                                             log::info("config.changed",
                                                       {{"path", config_.view().path},
                                                        {"inForce", config_.view().last_good ? "last good" : "new"}});
                                             log_effective(config_.view());
                                             open_driver();
                                             plan_again();
                                             turn();
                                           });
      !followed) {
    log::warning("config.unwatched", {{"why", followed.error()}});
  }
  state_.driver_problem = "the driver library is being opened";
  turn();
  ask_holdings();
  loop_->run();

  stopping_ = true;
  nodes_.reset();
  nvml_.reset();  // joins its thread before anything that its callbacks use goes away
  pools_.reset();
  http_.reset();
  plugins_.reset();
  on_answered();
  worker_.reset();
  cdi_.reset();
  status_.reset();
  log::info("stopped");
  return 0;
}

void NodeProgram::on_inventory(const Result<inventory::Inventory>& scanned) {
  if (!scanned) {
    const std::string problem = to_string(scanned.error());
    if (problem == state_.driver_problem) return;
    state_.driver_problem = problem;
    log_no_driver(state_);
    turn();
    return;
  }
  const bool first = !state_.inventory;
  log_inventory(state_.inventory, *scanned);
  auto kept = inventory::keep_missing(state_.inventory.value_or(inventory::Inventory{}), *scanned);
  health_.on_inventory(kept.inventory, std::move(kept.missing), loop_->now());
  state_.inventory = std::move(kept.inventory);
  if (first && nvml_) nvml_->ask_use();  // what the driver wants to be done with a GPU may date from before our time
  state_.driver_problem.clear();
  plan_again();
  turn();
}

const inventory::Inventory& NodeProgram::known_inventory() const {
  static const inventory::Inventory kNone;
  return state_.inventory ? *state_.inventory : kNone;
}

void NodeProgram::plan_again() {
  state_.config = config_.view();
  cdi_->follow(state_.config, state_.inventory);
  if (!state_.inventory) return;
  nodes_->look(state_.config.config.imex, state_.inventory->platform, driver_settings_.driver_root);
  auto plan = plan::make_plan(state_.config.config, *state_.inventory);
  auto problems = plan ? std::vector<Problem>{} : plan.error();
  problems.insert(problems.end(), nodes_->problems().begin(), nodes_->problems().end());
  if (problems != state_.plan_problems) log_problems(problems);
  state_.plan_problems = std::move(problems);
  if (!plan) return;  // the last good plan stays
  if (*plan == state_.plan) return;
  state_.plan = *std::move(plan);
  log_plan(state_.plan);
}

void NodeProgram::on_gpu_event(const host::GpuEvent& event) {
  const bool look = health_.on_event(event, known_inventory(), state_.plan, loop_->now());
  if (nvml_ && look) nvml_->ask_use();
  if (nvml_ && event.what == host::GpuEvent::What::kBack) nvml_->rescan();
  turn();
}

void NodeProgram::on_use(const Result<std::vector<host::GpuUse>>& use) {
  if (!use) return;
  health_.on_use(*use, loop_->now());
  state_.grant_of_pid = grants_of_clients(*use, state_.grant_of_pid);
  state_.use = *use;
  turn();
}

void NodeProgram::on_pools(const std::string& line) {
  PoolReports next;
  if (line.empty()) {
    next.problem = "tranche mps is not running (no answer on " +
                   (options_.mps_root_here.empty() ? host_mps_root(state_.config.config) : options_.mps_root_here) +
                   "/mps.sock)";
  } else if (auto reports = parse_pool_reports(line)) {
    next.connected = true;
    next.pools = *std::move(reports);
  } else {
    next.problem = to_string(reports.error());
  }
  if (next == state_.pools) return;
  log_pools(state_.pools, next, !state_.plan.pools.empty());
  state_.pools = std::move(next);
  turn();
}

void NodeProgram::turn() {
  if (nvml_ && health_.wants_look(loop_->now())) nvml_->ask_use();
  state_.faults = health_.judge(state_.plan, known_inventory(), state_.driver_problem, node_faults(),
                                pool_faults(state_.plan, state_.pools), loop_->now());
  state_.advertised = advertise::advertise(state_.plan, state_.faults);
  arm_health_timer();
  publish();
  plugins_->publish(state_.advertised);
}

// Faults that no GPU's own health tells: of the node as a whole, and of devices that only an older plan still has.
std::map<std::string, health::Unhealthy> NodeProgram::node_faults() const {
  std::map<std::string, health::Unhealthy> faults;
  if (!state_.inventory) return faults;
  for (auto& [uuid, why] : plan::stale_devices(state_.plan, *state_.inventory, state_.config.config.flags.mig_strategy))
    faults.emplace(uuid, health::Unhealthy{health::Cause::kLost, std::move(why)});
  const std::string missing = nodes_->block();
  if (missing.empty()) return faults;
  for (const auto& resource : state_.plan.resources)
    for (const auto& device : resource.devices)
      faults.try_emplace(device.uuid, health::Unhealthy{health::Cause::kNode, missing});
  return faults;
}

void NodeProgram::publish() {
  if (state_.config.path.empty() && state_.config.problems.empty()) state_.config = config_.view();
  const auto& config = state_.config.config;
  state_.taken = loop_->now();
  state_.taken_wall = loop_->wall_now();
  state_.allocation.flags = config.flags;
  state_.allocation.imex = config.imex;
  state_.allocation.control_nodes = nodes_->control();
  state_.allocation.imex_channels = nodes_->imex_channels();
  state_.allocation.sm_rounding = config.sharing.sm_rounding;
  state_.allocation.paths = {host_mps_root(config)};
  state_.allocation.cdi_classes = cdi_->classes();
  state_.cdi_problem = cdi_->problem();
  state_.health = health_.report();
  if (state_.inventory) state_.labels = label::labels_for(config, *state_.inventory, state_.plan, {});
  if (plugins_) state_.plugins = plugins_->states();
  box_.put(std::make_shared<const Snapshot>(state_));
  if (status_) status_->changed();
}

void NodeProgram::arm_health_timer() {
  loop_->cancel(health_timer_);
  health_timer_ = 0;
  if (const auto next = health_.next_change())
    health_timer_ = loop_->after(std::max<Duration>(*next - loop_->now(), 0s), [this] { turn(); });
}

void NodeProgram::on_answered() {
  const Answered answered = answers_->take_answered();
  log_answered(answered);
  if (!answered.given.empty()) ask_holdings_soon(kHoldingsAfterGrant);
}

void NodeProgram::ask_holdings_soon(Duration delay) {
  loop_->cancel(holdings_timer_);
  holdings_timer_ = loop_->after(delay, [this] { ask_holdings(); });
}

void NodeProgram::ask_holdings() {
  if (holdings_asked_) return;
  holdings_asked_ = true;
  worker_->run([this, socket = options_.pod_resources_socket] {
    auto listed = host::list_pod_resources(socket, kHoldingsDeadline);
    loop_->post([this, listed = std::move(listed)] {
      holdings_asked_ = false;
      if (stopping_) return;
      state_.holdings_problem = listed ? "" : to_string(listed.error());
      if (listed) state_.holdings = *listed;
      publish();
      ask_holdings_soon(kHoldingsEvery);
    });
  });
}

Result<std::string> NodeProgram::answer(const std::string& request) {
  if (request != "status" && request != "watch") {
    return fail(Kind::kInvalid, "the node agent answers \"status\" and \"watch\", not " + request);
  }
  if (request == "status") {  // somebody is looking: have newer figures for the next look
    if (loop_->now() - use_wanted_ > kUseFreshFor && nvml_ && state_.inventory) {
      use_wanted_ = loop_->now();
      nvml_->ask_use();
    }
    ask_holdings();
  }
  return status_document(*box_.get()).dump();
}

}  // namespace

int run_node(const NodeOptions& options) {
  return NodeProgram(options).run();
}

}  // namespace tranche::agent
