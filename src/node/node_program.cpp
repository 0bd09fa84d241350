#include "node/node_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "config/live/driver_settings.h"
#include "node/drain_program.h"
#include "node/node_log.h"
#include "node/node_parts.h"
#include "node/observe/pages.h"
#include "os/files/files.h"
#include "os/log/log.h"
#include "os/memory/memory.h"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAnsweredWait = 50ms;  // the log may be late, the next answer must not be

ConfigPlaces config_places(const NodeOptions& options) {
  ConfigPlaces places = options.config;
  places.node_name = options.node_name;
  places.write_down = options.run_dir + "/" + kConfigInForce;
  return places;
}

// Without --kubelet-socket, kubelet's socket is in the directory of the agent's; with an empty one there is no
// registration (NVIDIA's rule).
host::PluginHostSettings plugin_settings(const std::string& plugin_dir, const config::PluginRun& run, MonoTime now) {
  host::PluginHostSettings settings;
  // Nodes that start together get different seeds, so their retries drift apart.
  settings.seed = static_cast<std::uint64_t>(now.time_since_epoch().count()) ^ static_cast<std::uint64_t>(::getpid());
  settings.plugin_dir = plugin_dir;
  settings.register_with_kubelet = !run.kubelet_socket.empty();
  if (run.kubelet_socket != config::PluginRun{}.kubelet_socket) settings.kubelet_socket = run.kubelet_socket;
  return settings;
}

// To the log and, if that is JSON, also as text: the preceding log line may be a thousand characters long.
void start_failed(const Error& why) {
  log::error("start.failed", {{"why", why}});
  fmt::print(stderr, "tranche node: cannot start: {}\n", to_string(why));
}

}  // namespace

NodeProgram::NodeProgram(const NodeOptions& options)
    : options_(options),
      config_(options.flags, options.environment, options.unknown_keys, config_places(options)),
      health_(options.environment, {options.health_quiet_period}) {}

std::string host_mps_root(const config::Config& config) {
  return config.flags.mps_root.empty() ? "/run/nvidia/mps" : config.flags.mps_root;
}

Status NodeProgram::open() {
  auto run_dir = host::Dir::create(options_.run_dir, 0755);
  if (!run_dir && !options_.run_dir_may_lack)
    return std::unexpected(within(std::move(run_dir).error(), "cannot make the run directory (--run-dir)"));
  if (!run_dir)
    log::warning("run_dir.none", {{"why", run_dir.error()},
                                  {"effect", "there is no status socket, and nothing is remembered over a restart"}});

  const std::string mps_here =
      options_.mps_root_here.empty() ? host_mps_root(config_.view().config) : options_.mps_root_here;
  holdings_ = std::make_unique<Holdings>(*loop_, *worker_, options_.pod_resources_socket,
                                         [this](auto listed) { on_holdings(std::move(listed)); });
  cluster_ = std::make_unique<Cluster>(
      *loop_, *link_, options_.node_name, options_.startup_taint,
      [this](const kube::PodChanges& changes) { on_pods(changes); }, [this] { step(); });
  labels_ = std::make_unique<LabelController>(
      *loop_, *worker_,
      LabelSettings{.output = options_.label_output,
                    .target = {options_.node_name, options_.feature_namespace, options_.pod_name, {}},
                    .node_is_supplied = config_.hand_on_node([this](const auto* node) {
                      if (labels_) labels_->node_is(node);
                    })},
      [this] { step(); });
  dra_slices_ = std::make_unique<DraSlices>(*loop_, *link_, options_.node_name, [this] { step(); });
  cdi_ = std::make_unique<CdiSpecs>(
      *loop_, *worker_, CdiOptions{.cdi_root = options_.cdi_root, .driver_root_here = options_.driver_root_here},
      [this] { step(); });
  answered_ = std::make_unique<host::LoopSignal>(*loop_, [this] { on_answered(); }, kAnsweredWait);
  answers_ = std::make_unique<NodeAnswers>(box_, mps_here, [this] { answered_->raise(); });
  auto plugins = host::PluginHost::open(*loop_, plugin_settings(options_.plugin_dir, config_.view().run, loop_->now()),
                                        *answers_, [this] { step(); });
  if (!plugins)
    return std::unexpected(
        within(std::move(plugins).error(), "cannot use kubelet's device plugin directory (--plugin-dir)"));
  plugins_ = *std::move(plugins);
  if (run_dir) {  // during a rolling update the previous agent may still answer there
    TRY(status_,
        host::StatusServer::open(
            *loop_, options_.run_dir + "/node.sock", [this](const std::string& request) { return answer(request); },
            {.take_over = true, .later = "status"},
            [this](const std::string& request, const auto& reply) { answer(request, reply); }));
  }
  mps_ = std::make_unique<MpsClient>(*loop_, mps_here);
  mps_->follow([this](const PoolReports& reports) { on_pools(reports); });
  measure_timer_ = std::make_unique<host::Timer>(*loop_);
  use_timer_ = std::make_unique<host::Timer>(*loop_);
  tidy_timer_ = std::make_unique<host::Timer>(*loop_);
  looked_ = std::make_unique<host::LoopSignal>(*loop_, [this] { on_looked(); });
  auto pages = node_pages({&box_, &figures_, &gpu_figures_, [this] { looked_->raise(); }, options_.dcgm_names});
  http_ = std::make_unique<HttpPages>(
      *loop_, options_.listen, std::move(pages.routes), [this] { on_pages(); }, HttpPages::kOldestBeat,
      std::move(pages.at_rest));
  TRY_STATUS(http_->open());
  nodes_ = std::make_unique<DeviceNodes>(*loop_, [this] { step({.plan = true}); });
  ledger_ = grants::Ledger(grants_file_.read());
  if (const auto installed = install_drain_program(options_.program_dir); installed) {
    program_dir_ = options_.program_dir;
  } else {
    log::warning("drain.not_offered", {{"why", installed.error()}});
  }
  tenants_ = std::make_unique<Tenants>(*loop_, ledger_, *mps_, nvml_, cluster_, figures_, mps_here, options_.run_dir,
                                       [this] { step(); });
  other_holders_ = std::make_unique<OtherHoldersFile>(mps_here);
  open_mig();
  open_claims();
  holdings_->ask();  // before the driver: existing holdings decide which plan may be in effect
  open_driver();
  return {};
}

void NodeProgram::open_driver() {
  auto settings = driver_settings(config_.view().config.flags, options_.driver_root_here, options_.system_root);
  settings.fault_events = !health_.off();
  if (nvml_ && settings == driver_settings_) return;
  driver_settings_ = std::move(settings);
  nvml_.reset();
  nvml_ = host::NvmlThread::start(*loop_, driver_settings_,
                                  {.on_inventory = [this](const auto& scanned) { on_inventory(scanned); },
                                   .on_event = [this](const auto& event) { on_gpu_event(event); },
                                   .on_use = [this](const auto& use) { on_use(use); },
                                   .on_sample = [this](const auto& samples) { tenants_->on_sample(samples); },
                                   .on_telemetry = [this](const auto& round) { gpu_figures_.put(round); }});
  tenants_->sample_again();
}

int NodeProgram::run() {
  ::signal(SIGPIPE, SIG_IGN);  // the log's reader may exit
  if (config_.hopeless()) {
    for (const auto& problem : config_.view().problems) fmt::print(stderr, "{}\n", to_string(problem));
    return 2;
  }
  auto loop = host::Loop::open();
  if (!loop) {
    start_failed(loop.error());
    return 1;
  }
  loop_ = *std::move(loop);
  health_timer_ = std::make_unique<host::Timer>(*loop_);
  const auto signals = loop_->on_signals({SIGTERM, SIGINT, SIGQUIT, SIGHUP}, [this](int number) {
    if (number == SIGHUP) {
      log::info("config.reload", {{"because", "SIGHUP"}});
      config_.reload();
      if (nvml_) nvml_->rescan();  // includes a GPU that was added meanwhile
      return;
    }
    log::info("stop.asked", {{"signal", number}});
    loop_->stop();
  });
  if (!signals) {
    start_failed(signals.error());
    return 1;
  }
  worker_ = host::Worker::start();
  link_ = std::make_unique<host::KubeLink>(*loop_, *worker_, options_.kubeconfig, options_.environment);
  if (const auto begun = config_.begin(*loop_, link_.get()); !begun) {
    start_failed(begun.error());
    return 1;
  }
  if (!config_.view().in_force) return 0;  // stopped while waiting for one
  inputs_.config = config_.view();
  log_problems(inputs_.config.problems);
  log_effective(inputs_.config);
  health_.log_settings();
  if (const auto opened = open(); !opened) {
    start_failed(opened.error());
    return 1;
  }
  if (const auto followed = config_.follow(*loop_, [this] { on_config(); }); !followed) {
    log::warning("config.unwatched", {{"why", followed.error()}});
  }
  inputs_.driver_problem = "the driver library is being opened";
  phase_ = Phase::kRunning;
  step({.offer = true});
  on_pages();
  loop_->run();

  phase_ = Phase::kEnding;
  mig_.reset();  // joins its thread; a change in progress continues at the next start
  dra_slices_.reset();
  labels_.reset();
  worker_.reset();  // joins its thread before the owners of its jobs are destroyed
  cluster_.reset();
  holdings_.reset();
  nodes_.reset();
  nvml_.reset();  // joins its thread before objects that its callbacks use are destroyed
  tenants_.reset();
  mps_.reset();
  http_.reset();
  looked_.reset();
  measure_timer_.reset();
  tidy_timer_.reset();
  plugins_.reset();
  dra_retry_.reset();
  dra_server_.reset();
  former_dra_servers_.clear();
  claim_statuses_.reset();
  claims_.reset();
  partitions_.reset();   // joins its thread; the claims' record has what it left
  claims_lock_.reset();  // a newer agent takes the claims
  claims_changed_.reset();
  on_answered();
  cdi_.reset();
  status_.reset();
  log::info("stopped");
  return 0;
}

int run_node(const NodeOptions& options) {
  host::keep_little_memory();
  return NodeProgram(options).run();
}

}  // namespace tranche::agent
