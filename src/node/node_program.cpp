#include "node/node_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "base/text.h"

#include "node/node_parts.h"
#include "os/files/files.h"
#include "os/log/log.h"
#include "os/memory/memory.h"

namespace tranche::node {
namespace {

config::ConfigPlaces config_places(const NodeOptions& options) {
  config::ConfigPlaces places = options.config;
  places.node_name = options.node_name;
  places.write_down = options.run_dir + "/" + config::kConfigInForce;
  return places;
}

// Without --kubelet-socket, kubelet's socket is in the directory of the agent's; with an empty one there is no
// registration (NVIDIA's rule).
kubelet::PluginHostSettings plugin_settings(const std::string& plugin_dir, const config::PluginRun& run, MonoTime now) {
  kubelet::PluginHostSettings settings;
  // Nodes that start together get different seeds, so their retries drift apart.
  settings.seed = static_cast<std::uint64_t>(now.time_since_epoch().count()) ^ static_cast<std::uint64_t>(::getpid());
  settings.plugin_dir = plugin_dir;
  settings.register_with_kubelet = !run.kubelet_socket.empty();
  if (run.kubelet_socket != config::PluginRun{}.kubelet_socket) settings.kubelet_socket = run.kubelet_socket;
  return settings;
}

// To the log and, if that is JSON, also as text: the preceding log line may be a thousand characters long.
int start_failed(const Error& why) {
  log::error("start.failed", {{"why", why}});
  fmt::print(stderr, "tranche node: cannot start: {}\n", to_string(why));
  return 1;
}

}  // namespace

std::string host_mps_root(const config::Config& config) {
  return config.flags.mps_root.empty() ? "/run/nvidia/mps" : config.flags.mps_root;
}

NodeProgram::NodeProgram(const NodeOptions& options, os::Loop& loop, os::Worker& worker, kube::KubeLink& link,
                         config::ConfigSource& config)
    : options_(options),
      loop_(loop),
      worker_(worker),
      link_(link),
      config_(config),
      mps_root_here_(options.mps_root_here.empty() ? host_mps_root(config.view().config) : options.mps_root_here),
      holdings_(loop, worker, options.pod_resources_socket,
                [this](const auto& listed, MonoTime asked) { on_holdings(listed, asked); }),
      cluster_(
          loop, link, options.node_name, options.startup_taint, [this](const auto& endings) { on_endings(endings); },
          [this] { step(); }),
      labels_(loop, worker,
              {.output = options.label_output,
               .target = {options.node_name, options.feature_namespace, options.pod_name, {}},
               .node_is_supplied = config.hand_on_node([this](const auto* node) { labels_.node_is(node); })},
              [this] { step(); }),
      slices_(loop, link, options.node_name, [this] { step(); }),
      cdi_(loop, worker, {.cdi_root = options.cdi_root, .driver_root_here = options.driver_root_here},
           [this] { step(); }),
      nvml_(loop, {.on_inventory = [this](const auto& scanned) { on_inventory(scanned); },
                   .on_event = [this](const auto& event) { on_gpu_event(event); },
                   .on_use = [this](const auto& use) { on_use(use); },
                   .on_sample = [this](const auto& samples) { guarding_.on_sample(samples); },
                   .on_telemetry = [this](const auto& round) { gpu_figures_.put(round); }}),
      guarding_(loop, ledger_, mps_, nvml_, figures_, mps_root_here_, options.run_dir,
                {.acted = [this](const GuardAct& act) { report_act(act); }, .changed = [this] { step(); }}),
      claims_lock_(loop, options.run_dir,
                   {.taken = [this] { take_claims(); },
                    .wanted = [this] { claims_.give_up([this] { claims_lock_.give_up(); }); }}),
      partitions_(loop, {.driver = [this] { return driver_settings_; }, .changed = [this] { step({.offer = true}); }}),
      claims_(loop, link, mps_, partitions_, options.run_dir, options.cdi_root,
              {.changed = [this] { on_claims(); }, .rescan = [this] { nvml_.rescan(); }}),
      claim_statuses_(loop, link, claims_,
                      {.wanted =
                           [this] {
                             return claim_statuses(claims_.prepared(), dra_devices({inputs_, decision_}).list,
                                                   inputs_.pools);
                           },
                       .changed = [this] { step(); }}),
      plugins_(loop, plugin_settings(options.plugin_dir, config.view().config.run, loop.now()), answers_,
               [this] { step(); }),
      pages_(node_pages({&box_, &figures_, &gpu_figures_, [this] { looked_.raise(); }, options.dcgm_names})),
      http_(
          loop, options.listen, pages_.routes, [this] { on_pages(); }, observe::HttpPages::kOldestBeat,
          pages_.at_rest) {}

Status NodeProgram::open() {
  const auto run_dir = os::Dir::create(options_.run_dir, 0755);
  if (!run_dir && !options_.run_dir_may_lack)
    return std::unexpected(within(run_dir.error(), "cannot make the run directory (--run-dir)"));
  if (!run_dir)
    log::warning("run_dir.none", {{"why", run_dir.error()},
                                  {"effect", "there is no status socket, and nothing is remembered over a restart"}});

  if (auto opened = plugins_.open(); !opened)
    return std::unexpected(
        within(std::move(opened).error(), "cannot use kubelet's device plugin directory (--plugin-dir)"));
  if (run_dir) {  // during a rolling update the previous agent may still answer there
    TRY(status_,
        os::StatusServer::open(
            loop_, options_.run_dir + "/node.sock", [this](const std::string& request) { return answer(request); },
            {.take_over = true, .later = "status"},
            [this](const std::string& request, const auto& reply) { answer(request, reply); }));
  }
  mps_.follow([this](const mps::PoolReports& reports) { on_pools(reports); });
  TRY_STATUS(http_.open());
  open_mig();
  if (claims_lock_.open()) claims_.take();
  holdings_.ask();  // before the driver: existing holdings decide which plan may be in effect
  open_driver();
  return {};
}

void NodeProgram::open_driver() {
  auto settings = gpu::driver_settings(config_.view().config.flags, options_.driver_root_here, options_.system_root);
  settings.fault_events = !health_.off();
  if (nvml_.runs() && settings == driver_settings_) return;
  driver_settings_ = std::move(settings);
  nvml_.start(driver_settings_);
  guarding_.sample_again();
}

Status NodeProgram::run() {
  inputs_.config = config_.view();
  health_.log_settings();
  TRY_STATUS(open());
  config_.follow(loop_, [this] { on_config(); });
  inputs_.driver_problem = "the driver library is being opened";
  running_ = true;
  step({.offer = true});
  on_pages();
  loop_.run();
  running_ = false;
  mig_.reset();      // a change in progress continues at the next start
  plugins_.close();  // nothing is given any more
  on_answered();
  return {};
}

int run_node(const NodeOptions& options) {
  os::keep_little_memory();
  ::signal(SIGPIPE, SIG_IGN);  // the log's reader may exit
  auto loop = os::Loop::open();
  if (!loop) return start_failed(loop.error());
  std::unique_ptr<kube::KubeLink> link;
  config::ConfigSource config(options, config_places(options));
  if (config.hopeless()) {
    for (const auto& problem : config.view().problems) fmt::print(stderr, "{}\n", to_string(problem));
    return 2;
  }
  std::unique_ptr<NodeProgram> program;
  const auto signals = (*loop)->on_signals({SIGTERM, SIGINT, SIGQUIT, SIGHUP}, [&](int number) {
    if (number == SIGHUP) {
      log::info("config.reload", {{"because", "SIGHUP"}});
      config.reload();
      if (program) program->rescan();  // includes a GPU that was added meanwhile
      return;
    }
    log::info("stop.asked", {{"signal", number}});
    (*loop)->stop();
  });
  if (!signals) return start_failed(signals.error());
  auto worker = os::Worker::start();
  link = std::make_unique<kube::KubeLink>(**loop, *worker, options.kubeconfig, options.environment);
  if (const auto begun = config.begin(**loop, link.get()); !begun) return start_failed(begun.error());
  if (!config.view().in_force) return 0;  // stopped while waiting for one
  config::log_view(config.view());
  program = std::make_unique<NodeProgram>(options, **loop, *worker, *link, config);
  const auto ran = program->run();
  worker.reset();  // joins its thread before the owners of its jobs are destroyed
  program.reset();
  if (!ran) return start_failed(ran.error());
  log::info("stopped");
  return 0;
}

}  // namespace tranche::node
