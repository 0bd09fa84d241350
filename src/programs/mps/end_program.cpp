// `tranche mps --end`.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <nlohmann/json.hpp>

#include "base/json_read.h"
#include "base/json_text.h"
#include "config/live/config_source.h"
#include "config/live/driver_settings.h"
#include "gpu/driver/nvml.h"
#include "mps/control/control_client.h"
#include "mps/keeper/keeper.h"
#include "mps/pool/client_ending.h"
#include "mps/pool/pool_set.h"
#include "os/loop/loop.h"
#include "os/socket/status_socket.h"
#include "programs/mps/mps_program.h"

namespace tranche::programs {
namespace {

constexpr Duration kAnswer = std::chrono::seconds(5);

// nullopt: no program answers.
std::optional<pid_t> ask_running(const std::string& root) {
  const auto answer = os::ask(root + "/mps.sock", "end", kAnswer);
  if (!answer) return std::nullopt;
  const auto pid = number_at(json_of(*answer), "pid");
  return pid ? std::optional(static_cast<pid_t>(*pid)) : std::nullopt;
}

class EndProgram {
 public:
  EndProgram(const MpsOptions& options, const config::Config& config)
      : options_(options), config_(config), root_(mps_root_of(options, config.flags)) {}

  Status run() {
    TRY(loop_, os::Loop::open());
    if (const auto pid = ask_running(root_)) return wait_for(*pid);
    TRY(const auto lock, lock_mps_root(root_));
    TRY_STATUS(finish_ends());
    TRY(const auto left, mps::find_left_pools(root_));
    TRY(auto modes, mps::ComputeModes::open(
                        root_, [this](const std::string& uuid, gpu::ComputeMode mode, mps::ComputeModes::Done done) {
                          nvml_->set_compute_mode(uuid, mode, std::move(done));
                        }));
    modes_ = std::make_unique<mps::ComputeModes>(std::move(modes));
    if (left.empty() && modes_->changed().empty()) {
      fmt::print("no daemon runs under {}\n", root_);
      return {};
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    end(left);
    return done_;
  }

 private:
  Status wait_for(pid_t pid) {
    const auto ref = os::process_ref(pid);
    if (!ref) return {};  // it has already exited
    const auto process = os::Process::adopt(*loop_, *ref, [this](os::ExitNote) { loop_->stop(); });
    if (!process) return {};
    done_ =
        fail(Kind::kTimeout, fmt::format("tranche mps (pid {}) was asked to end its daemons and does not end", pid));
    loop_->after(options_.stop_patience + kAnswer, [this] { loop_->stop(); });
    loop_->run();
    if ((*process)->running()) return done_;
    fmt::print("ended by tranche mps (pid {})\n", pid);
    return {};
  }

  // Clients that a killed `tranche mps` had stopped in order to end them would stay stopped, because no other program
  // handles them.
  Status finish_ends() {
    TRY(os::Dir root, os::Dir::open(root_));
    endings_ = std::make_shared<mps::Endings>(*loop_, std::move(root));
    if (!endings_->lost().empty()) fmt::print(stderr, "{}; a client may stay stopped\n", endings_->lost());
    endings_->finish_left({.patience = config_.sharing.stop_patience},
                          [this](const std::vector<mps::Terminated>& outcomes) {
                            if (!outcomes.empty())
                              fmt::print("{} clients that were being ended: finished\n", outcomes.size());
                            loop_->stop();
                          });
    loop_->run();
    return {};
  }

  // The driver must restore compute modes: daemons are ended once it has answered, or after its timeout.
  void end(const std::vector<mps::LeftPool>& left) {
    done_ = fail(Kind::kTimeout, "a daemon or a driver call does not end");
    pools_ = std::make_unique<mps::PoolSet>(
        *loop_,
        mps::PoolSetSettings{.daemons = {.paths = {root_},
                                         .home = daemon_home(options_, config_.flags, root_),
                                         .supervisor = options_.supervisor,
                                         .endings = endings_}},
        *modes_, [] {});
    // Without a control program, queries fail, and daemons are signalled after their timeout.
    pools_->set_binary(control_program(options_, config_.flags, root_)
                           .value_or(mps::ControlBinary{.path = "nvidia-cuda-mps-control", .env = {}}));
    loop_->after(options_.stop_patience, [this] { loop_->stop(); });
    bool begun = false;
    const auto begin = [this, &left, &begun] {
      if (std::exchange(begun, true)) return;
      pools_->end(left, [this] {
        done_ = {};
        loop_->stop();
      });
    };
    nvml_.emplace(*loop_, gpu::NvmlThread::Callbacks{.on_inventory = [&begin](const auto&) { begin(); }});
    nvml_->start(config::driver_settings(config_.flags, options_.driver_root_here));
    loop_->after(kAnswer, [&begin] { begin(); });
    loop_->run();
    for (const auto& one : left) fmt::print("{}: daemon {}\n", one.id, done_ ? "ended" : "asked to end");
    nvml_.reset();
  }

  const MpsOptions& options_;
  const config::Config& config_;
  std::string root_;
  std::unique_ptr<os::Loop> loop_;
  std::optional<gpu::NvmlThread> nvml_;
  std::unique_ptr<mps::ComputeModes> modes_;
  std::shared_ptr<mps::Endings> endings_;
  std::unique_ptr<mps::PoolSet> pools_;
  Status done_;
};

}  // namespace

int end_mps(const MpsOptions& options) {
  const config::ConfigSource source(options.flags, options.environment, options.unknown_keys, config_places(options));
  if (!source.view().in_force) {  // ending the daemons of the default place is better than ending none
    fmt::print(stderr, "tranche mps --end: no configuration can be used, so daemons are looked for under {} only\n",
               mps_root_of(options, source.view().config.flags));
    for (const auto& problem : source.view().problems) fmt::print(stderr, "  {}\n", to_string(problem));
  }
  EndProgram program(options, source.view().config);
  const auto ended = program.run();
  mps::end_keeper(mps_root_of(options, source.view().config.flags), /*wait=*/true);
  if (ended) return 0;
  fmt::print(stderr, "tranche mps --end: {}\n", to_string(ended.error()));
  return 1;
}

}  // namespace tranche::programs
