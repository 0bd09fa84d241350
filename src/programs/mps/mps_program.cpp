#include "programs/mps/mps_program.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/json_text.h"
#include "base/text.h"
#include "config/live/config_source.h"
#include "gpu/driver/nvml.h"
#include "gpu/inventory/inventory.h"
#include "mps/control/control_client.h"
#include "mps/daemon/compute_modes.h"
#include "mps/daemon/daemon_home.h"
#include "mps/endpoints/endpoints.h"
#include "mps/keeper/held_files.h"
#include "mps/keeper/keeper.h"
#include "mps/pool/client_ending.h"
#include "mps/pool/pool_dirs.h"
#include "mps/pool/pool_set.h"
#include "mps/protocol/requests.h"
#include "observe/pages/http_pages.h"
#include "os/files/files.h"
#include "os/files/watch.h"
#include "os/log/log.h"
#include "os/loop/loop.h"
#include "os/memory/memory.h"
#include "os/socket/status_socket.h"
#include "os/socket/unix_socket.h"
#include "os/worker/worker.h"
#include "plan/plan.h"
#include "plan/select.h"
#include "programs/mps/mps_status.h"

namespace tranche::programs {
namespace {

constexpr Duration kDriverPace = std::chrono::seconds(5);
// Between reports of endpoints and clients. Pods that come together change them many times a second; the node agent
// goes over all its GPUs at each report, and its answers to kubelet wait meanwhile.
constexpr Duration kPace = std::chrono::milliseconds(50);
// Each client costs a daemon several, and the keeper 27 to 46; too few cause shared memory errors.
constexpr rlim_t kOpenFiles = 65536;

std::string driver_root_here(const MpsOptions& options, const config::Flags& flags) {
  return options.driver_root_here.empty() ? flags.plugin.container_driver_root : options.driver_root_here;
}

mps::ProcessEnvironment control_environment(const MpsOptions& options, const config::Flags& flags,
                                            const std::string& program, const std::string& mps_root_here) {
  auto env = mps::handed_on({options.environment.begin(), options.environment.end()});
  const std::string root = driver_root_here(options, flags);
  if (root.empty() || root == "/" || !program.starts_with(root)) return env;
  const auto link = [&](const char* folder, const std::string& named) {
    const auto made = mps::link_driver_libraries(root, mps_root_here + "/" + folder, named);
    if (!made)
      log::warning("mps.driver_libraries",
                   {{"why", to_string(made.error())}, {"effect", "MPS servers may not find libcuda"}});
    return made.value_or("");
  };
  if (options.daemons_on_host && flags.nvidia_driver_root != "/")
    (void)link(mps::kHostsDriverLibraries, flags.nvidia_driver_root);
  if (const auto folder = link(mps::kDriverLibraries, root); !folder.empty())
    env["LD_LIBRARY_PATH"] = mps::library_path(folder, env["LD_LIBRARY_PATH"]);
  return env;
}

std::string states_of(const mps::PoolSet& pools) {
  std::string states;
  for (const auto& pool : pool_readiness(pools)) states += pool.id + ' ' + pool.state + '\n';
  return states;
}

void report_lost(const std::string& what, const char* effect) {
  if (!what.empty()) log::error("state.lost", {{"what", what}, {"effect", effect}});
}

// Daemons and the keeper inherit it. A lower limit than requested does not prevent the start.
rlim_t raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kOpenFiles) return limit.rlim_cur;
  const rlimit raised{kOpenFiles, std::max(limit.rlim_max, kOpenFiles)};
  const rlimit as_permitted{limit.rlim_max, limit.rlim_max};  // without the right to raise that
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) ::setrlimit(RLIMIT_NOFILE, &as_permitted);
  return mps::most_open_files();
}

class MpsProgram {
 public:
  explicit MpsProgram(const MpsOptions& options) : options_(options), config_(options, options.config) {}

  int run() {
    ::signal(SIGPIPE, SIG_IGN);  // the log's reader may exit; a child process gets the default back (os/process)
    const auto& config = config_.view();
    if (config_.hopeless()) {
      for (const auto& problem : config.problems) fmt::print(stderr, "{}\n", to_string(problem));
      return 2;
    }
    const auto begun = begin();
    if (begun && !config.in_force) return 0;  // stopped while waiting for one
    if (const auto opened = begun ? open() : begun; !opened) {
      log::error("start.failed", {{"why", opened.error()}});
      return 1;
    }
    log::info("mps.started", {{"mps_root", root_}, {"config", config.path}});
    loop_->run();

    nvml_.reset();  // joins its thread before objects that its callbacks use are destroyed
    http_.reset();
    status_.reset();
    log::info("stopped", {{"exit_code", exit_code_}});
    return exit_code_;
  }

 private:
  Status begin() {
    TRY(loop_, os::Loop::open());
    TRY_STATUS(loop_->on_signals({SIGTERM, SIGINT, SIGQUIT, SIGHUP}, [this](int number) { on_signal(number); }));
    return config_.begin(*loop_, nullptr);
  }

  Status open() {
    config::log_view(config_.view());
    root_ = mps_root_of(options_, config_.view().config.flags);
    const auto home = daemon_home(options_, config_.view().config.flags, root_);
    TRY_STATUS(mps::check_home(home));
    auto root = os::Dir::create(root_, 0755);
    if (!root) return std::unexpected(within(root.error(), "cannot make the MPS root (--mps-root)"));
    TRY(lock_, lock_mps_root(root_));
    // This process has the lock, so the socket is its own; a child of a killed predecessor may still listen there.
    TRY_STATUS(root->remove_tree("mps.sock"));
    TRY_STATUS(mps::set_reach(root_, /*servers_of_users=*/false));
    // Servers whose daemon was killed become children of this process, which monitors and reaps them, wherever it runs.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);

    TRY_STATUS(open_modes());
    TRY_STATUS(open_pools(*std::move(root), home));
    follow_other_holders();
    TRY(status_, os::StatusServer::open(
                     *loop_, root_ + "/mps.sock", [this](const std::string& request) { return answer(request); }, {},
                     [this](const std::string& request, const os::StatusServer::Reply& reply) {
                       pools_->answer(request, [reply](const std::string& json) { reply(json); });
                     }));
    os::HttpServer::Routes routes{{"/metrics", [this] { return os::HttpAnswer::metrics(pages_.get()->metrics); }},
                                  {"/readyz", [this] {
                                     const auto pages = pages_.get();
                                     return observe::probe_page(pages->readiness.ready, pages->readiness.reason);
                                   }}};
    http_ = std::make_unique<observe::HttpPages>(*loop_, options_.listen, std::move(routes), [this] { publish(); });
    TRY_STATUS(http_->open());
    config_.follow(*loop_, [this] { plan_again(); });
    look_for_binary();
    open_nvml();
    publish();
    return {};
  }

  Status open_modes() {
    TRY(os::Dir root, os::Dir::open(root_));
    modes_ = std::make_unique<mps::ComputeModes>(
        std::move(root), [this](const std::string& uuid, gpu::ComputeMode mode, mps::ComputeModes::Done done) {
          if (!nvml_) return done(fail(Kind::kUnavailable, "the driver library is not open"));
          nvml_->set_compute_mode(uuid, mode, [uuid, mode, done = std::move(done)](const Status& status) {
            if (status) log::info("compute_mode.set", {{"gpu", uuid}, {"mode", gpu::to_string(mode)}});
            done(status);
          });
        });
    report_lost(modes_->lost(),
                "GPUs that are EXCLUSIVE_PROCESS now keep that mode when they are no longer shared; set "
                "another one with nvidia-smi -c");
    return {};
  }

  Status open_pools(os::Dir root, const mps::DaemonHome& home) {
    const rlim_t files = raise_open_file_limit();
    endings_ = std::make_shared<mps::Endings>(*loop_, std::move(root));
    report_lost(endings_->lost(),
                "a client that was being ended when tranche mps was killed may stay stopped until its container ends");
    TRY(auto logs, mps::LogWatch::open(*loop_));
    const auto& sharing = config_.view().config.sharing;
    mps::PoolSetSettings settings{
        .daemons = {.paths = {root_},
                    .home = home,
                    .supervisor = options_.supervisor,
                    .proof = options_.proof,
                    .proof_program = options_.proof_program,
                    .endings = endings_,
                    .logs = std::move(logs)},
        .try_again = options_.search_again,
        .endpoints = mps::EndpointsSettings{.paths = {root_},
                                            .home = home,
                                            .policy = sharing.endpoint,
                                            // Tenants must not use up the descriptors that other tenants, commands to
                                            // daemons, and the status need.
                                            .relay = {.connections_per_grant = std::clamp<rlim_t>(files / 8, 16, 512),
                                                      .connections = std::clamp<rlim_t>(files / 16, 16, 4096)}}};
    pools_ = std::make_unique<mps::PoolSet>(*loop_, std::move(settings), *modes_, [this] { publish(); });
    endings_->finish_left(
        {.patience = sharing.stop_patience,
         .killed_with = pools_->killed_with(),
         .patience_with_those = sharing.stop_patience},
        [](const std::vector<mps::Terminated>& outcomes) {
          if (outcomes.empty()) return;
          const auto ended =
              std::ranges::count(outcomes, mps::TerminateOutcome::kTerminated, &mps::Terminated::outcome);
          log::info("clients.end_finished",
                    {{"ended", ended}, {"of", outcomes.size()}, {"why", "tranche mps was killed while it ended them"}});
        });
    return {};
  }

  // The file in which the node agent lists the devices that containers hold without MPS (mps/protocol/requests.h) may
  // appear later, or never.
  void follow_other_holders() {
    auto watch = os::DirWatch::open(*loop_, root_, [this](const std::string& name) {
      if (name == mps::kOtherHoldersFile || name.empty()) read_other_holders();
    });
    if (!watch) log::warning("other_holders.unwatched", {{"why", watch.error()}});
    holders_watch_ = std::move(watch).value_or(nullptr);
    read_other_holders();
  }

  void read_other_holders() {
    const auto text = os::read_file(root_ + "/" + mps::kOtherHoldersFile);
    if (text || text.error().kind == Kind::kNotFound)
      return pools_->set_other_holders(mps::parse_other_holders(text.value_or("")));
    log::warning("other_holders.unread", {{"why", text.error()}});  // the last known value stays
  }

  Result<std::string> answer(const std::string& request) {
    if (request == "status" || request == "watch") return json_text(mps_document(view()));
    if (request != "end")
      return fail(Kind::kInvalid,
                  "tranche mps answers \"status\", \"watch\", \"end\" and requests in JSON, not " + request);
    loop_->post([this] {
      if (stopping_) return;
      log::info("stop.asked", {{"by", "tranche mps --end"}});
      begin_stop(/*end_clients=*/true);
    });
    return json_text(nlohmann::json({{"ok", true}, {"pid", ::getpid()}}));
  }

  void open_nvml() {
    auto settings = gpu::driver_settings(config_.view().config.flags, options_.driver_root_here, options_.system_root);
    // `tranche node` watches for faults. Kernel events report added and removed GPUs; everything else may wait.
    settings.fault_events = false;
    settings.event_pace = kDriverPace;
    nvml_.emplace(*loop_,
                  gpu::NvmlThread::Callbacks{.on_inventory = [this](const auto& scanned) { on_inventory(scanned); },
                                             .on_event =
                                                 [this](const gpu::GpuEvent& event) {
                                                   if (event.what == gpu::GpuEvent::What::kBack) nvml_->rescan();
                                                 }});
    nvml_->start(settings);
  }

  void look_for_binary() {
    const auto found = control_program(options_, config_.view().config.flags, root_);
    if (!found) return on_binary(found);
    mps::describe_control_binary(*loop_, *found, binary_question_,
                                 [this](const Result<mps::ControlBinary>& binary) { on_binary(binary); });
  }

  void on_binary(const Result<mps::ControlBinary>& binary) {
    if (stopping_) return;
    if (!binary) {
      const std::string problem = to_string(binary.error());
      if (problem != binary_problem_) log::warning("mps_control.missing", {{"why", problem}});
      binary_problem_ = problem;
      pools_->set_binary(binary);
      loop_->after(options_.search_again, [this] {
        if (!stopping_) look_for_binary();
      });
      return;
    }
    binary_problem_.clear();
    log::info("mps_control.found", {{"path", binary->path}, {"offers_multiuser", binary->offers_multiuser}});
    const bool servers_of_users = ::geteuid() == 0 && !binary->offers_multiuser;
    if (const auto set = mps::set_reach(root_, servers_of_users); !set)
      log::error("pools.reach", {{"why", set.error()}});
    pools_->set_binary(binary);
    if (!pools_->serves_all_users()) {
      log::warning("mps.one_user",
                   {{"why", ::geteuid() == 0 ? "this MPS cannot serve several users at once" : "not started as root"},
                    {"effect", "a client of another user waits until every client of the first has left"}});
    }
  }

  void on_inventory(const Result<gpu::Inventory>& scanned) {
    if (!scanned) {
      const std::string problem = to_string(scanned.error());
      if (problem != driver_problem_) log::warning("driver.waiting", {{"why", problem}});
      driver_problem_ = problem;
      return publish();
    }
    if (!inventory_) {
      log::info("driver.ready", {{"version", scanned->driver_version}, {"gpus", scanned->gpus.size()}});
    } else {
      for (const auto& change : gpu::changes(*inventory_, *scanned)) {
        log::info("inventory.changed", {{"what", change}});
      }
    }
    const auto has_left = [this](const auto& gpu) { return gpu::has_left(options_.system_root, gpu); };
    inventory_ = gpu::keep_missing(inventory_.value_or(gpu::Inventory{}), *scanned, has_left).inventory;
    for (const auto& gpu : scanned->gpus) modes_->seen(gpu.uuid, gpu.compute_mode);
    driver_problem_.clear();
    plan_again();
  }

  void plan_again() {
    if (inventory_ && !stopping_) {
      const auto kept = plan::keep_gpus(config_.view().config.devices, *inventory_);
      auto plan = plan::make_plan(config_.view().config, kept);
      if (plan) {
        plan_problems_.clear();
        if (plan->pools.empty()) log::info("mps.nothing_to_share", {{"why", "no resource is shared by MPS"}});
        read_other_holders();  // they were written before this configuration, but their notification may come after it
        pools_->want(*plan, config_.view().config.sharing);
      } else if (plan.error() != plan_problems_) {
        plan_problems_ = plan.error();  // the previous plan stays
        config::log_problems(plan_problems_);
      }
    }
    publish();
  }

  MpsView view() const {
    MpsView seen{config_.view(), plan_problems_, driver_problem_, *pools_, loop_->now(), ::getpid()};
    if (!http_) return seen;
    seen.pages_problem = http_->problem();
    seen.loop = http_->loop();
    return seen;
  }

  // A change of a pool's state is reported at once: claims and slots of its GPUs wait for it.
  void publish() {
    if (!pools_) return;
    if (!report_due_ || states_of(*pools_) != states_) return report();
    if (report_due_->running()) return;
    report_due_->start(std::max<Duration>(next_report_ - loop_->now(), Duration::zero()), [this] { report(); });
  }

  void report() {
    if (!report_due_) report_due_ = std::make_unique<os::Timer>(*loop_);
    report_due_->stop();
    next_report_ = loop_->now() + kPace;
    states_ = states_of(*pools_);
    if (!options_.listen.empty())
      pages_.put(std::make_shared<const MpsPages>(
          metrics::to_text(mps_metrics(view())),
          mps_readiness({.ends = stopping_,
                         .driver_problem = driver_problem_,
                         .needs_driver = config_.view().config.flags.fail_on_init_error,
                         .plan_problems = plan_problems_,
                         .pools = pool_readiness(*pools_)})));
    if (status_) status_->changed();
  }

  void on_signal(int number) {
    if (number == SIGHUP) {
      log::info("config.reload", {{"because", "SIGHUP"}});
      return config_.reload();
    }
    if (stopping_) return;
    log::info("stop.asked", {{"signal", number}});
    if (!pools_) return loop_->stop();  // nothing was started yet
    if (!options_.daemons_on_host) return begin_stop(/*end_clients=*/false);
    // Compute modes and their file stay too: as long as a daemon serves, no process may run outside MPS.
    stopping_ = true;
    log::info("stop.daemons_left", {{"pools", pools_->pools().size()}, {"end_them", "tranche mps --end"}});
    loop_->stop();
  }

  void begin_stop(bool end_clients) {
    stopping_ = true;
    report();
    binary_question_.reset();
    loop_->after(options_.stop_patience, [this] {
      log::error("stop.incomplete", {{"why", "a daemon or a driver call does not end"}});
      exit_code_ = 1;
      loop_->stop();
    });
    pools_->stop(
        [this] {
          if (!options_.daemons_on_host) mps::end_keeper(root_, /*wait=*/false);
          loop_->stop();
        },
        end_clients);
  }

  MpsOptions options_;
  std::unique_ptr<os::Loop> loop_;  // first, so that it is destroyed last
  config::ConfigSource config_;
  std::string root_;
  std::optional<os::FileLock> lock_;
  std::optional<gpu::NvmlThread> nvml_;
  std::unique_ptr<mps::ComputeModes> modes_;
  std::shared_ptr<mps::Endings> endings_;
  std::unique_ptr<mps::PoolSet> pools_;
  std::unique_ptr<os::DirWatch> holders_watch_;
  std::unique_ptr<mps::Question> binary_question_;
  std::string binary_problem_;
  std::optional<gpu::Inventory> inventory_;
  std::string driver_problem_ = "the driver library is being opened";
  std::vector<Problem> plan_problems_;
  os::SharedBox<MpsPages> pages_;
  std::unique_ptr<os::Timer> report_due_;
  MonoTime next_report_{};
  std::string states_;  // of the pools, as of the last report
  std::unique_ptr<observe::HttpPages> http_;
  std::unique_ptr<os::StatusServer> status_;
  bool stopping_ = false;
  int exit_code_ = 0;
};

}  // namespace

std::string mps_root_of(const MpsOptions& options, const config::Flags& flags) {
  if (!options.mps_root_here.empty()) return options.mps_root_here;
  return flags.mps_root.empty() ? std::string(config::kDefaultMpsRoot) : flags.mps_root;
}

Result<mps::ControlBinary> control_program(const MpsOptions& options, const config::Flags& flags,
                                           const std::string& mps_root_here) {
  TRY(auto found, mps::find_control_binary({.given = options.mps_control,
                                            .driver_root = driver_root_here(options, flags),
                                            .path = config::variable(options.environment, "PATH")}));
  auto env = control_environment(options, flags, found, mps_root_here);
  return mps::ControlBinary{.path = std::move(found), .env = std::move(env)};
}

Result<os::FileLock> lock_mps_root(const std::string& mps_root) {
  const std::string path = mps_root + "/mps.lock";
  TRY(const auto root, os::Dir::open(mps_root));
  struct stat there{};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    // Another instance may hold the lock of the previous file.
    if (os::probe_listener(mps_root + "/mps.sock").alive)
      return fail(Kind::kConflict, "another tranche mps serves this MPS root, and something is in its lock's place",
                  path);
    TRY_STATUS(root.remove_tree("mps.lock"));
  }
  // The process's and not the open file's: a child that a killed process was starting has a copy of the latter for a
  // moment, and would block the next instance.
  TRY(auto lock, os::FileLock::open(path));
  TRY(const bool taken, lock.take());
  if (!taken) {
    const std::string holder(trimmed(os::read_file(path, 64).value_or("")));
    return fail(Kind::kConflict,
                "another tranche mps " + (holder.empty() ? std::string() : "(pid " + holder + ") ") +
                    "serves the MPS root " + mps_root + "; stop it, or choose another --mps-root",
                path);
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.file().get(), 0) != 0 || ::pwrite(lock.file().get(), pid.data(), pid.size(), 0) < 0)
    return fail_errno("cannot write the lock of the MPS root", path);
  return lock;
}

mps::DaemonHome daemon_home(const MpsOptions& options, const config::Flags& flags, const std::string& mps_root_here) {
  return {.host = options.daemons_on_host,
          .host_pid = options.host_pid,
          .mps_root = flags.mps_root.empty() ? mps_root_here : flags.mps_root,
          .driver_root = flags.nvidia_driver_root,
          .driver_root_here = driver_root_here(options, flags),
          .cgroup = options.daemon_cgroup};
}

int run_mps(const MpsOptions& options) {
  os::keep_little_memory();
  return MpsProgram(options).run();
}

}  // namespace tranche::programs
