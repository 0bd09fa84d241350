// `tranche mps --end`.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "config/live/config_source.h"
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

// 0: no program answers.
pid_t ask_running(const std::string& root) {
  const auto answer = os::ask(root + "/mps.sock", "end", kAnswer);
  return answer ? mps::pid_at(json_of(*answer), "pid") : 0;
}

Status wait_for(os::Loop& loop, pid_t pid, Duration patience) {
  const auto ref = os::process_ref(pid);
  if (!ref) return {};  // it has already exited
  const auto process = os::Process::adopt(loop, *ref, [&loop](os::ExitNote) { loop.stop(); });
  if (!process) return {};
  loop.after(patience, [&loop] { loop.stop(); });
  loop.run();
  if ((*process)->running())
    return fail(Kind::kTimeout, fmt::format("tranche mps (pid {}) was asked to end its daemons and does not end", pid));
  fmt::print("ended by tranche mps (pid {})\n", pid);
  return {};
}

// Clients that a killed `tranche mps` had stopped in order to end them would stay stopped, because no other program
// handles them.
void finish_ends(os::Loop& loop, mps::Endings& endings, Duration patience) {
  if (!endings.lost().empty()) fmt::print(stderr, "{}; a client may stay stopped\n", endings.lost());
  endings.finish_left({.patience = patience}, [&loop](const std::vector<mps::Terminated>& outcomes) {
    if (!outcomes.empty()) fmt::print("{} clients that were being ended: finished\n", outcomes.size());
    loop.stop();
  });
  loop.run();
}

Status end_daemons(const MpsOptions& options, const config::Config& config, const std::string& root) {
  TRY(const auto loop, os::Loop::open());
  if (const auto pid = ask_running(root); pid != 0) return wait_for(*loop, pid, options.stop_patience + kAnswer);
  TRY(const auto lock, lock_mps_root(root));
  TRY(os::Dir folder, os::Dir::open(root));
  const auto endings = std::make_shared<mps::Endings>(*loop, std::move(folder));
  finish_ends(*loop, *endings, config.sharing.stop_patience);
  TRY(const auto left, mps::find_left_pools(root));
  std::optional<gpu::NvmlThread> nvml;
  TRY(os::Dir for_modes, os::Dir::open(root));
  mps::ComputeModes modes(std::move(for_modes),
                          [&nvml](const std::string& uuid, gpu::ComputeMode mode, mps::ComputeModes::Done done) {
                            nvml->set_compute_mode(uuid, mode, std::move(done));
                          });
  if (left.empty() && modes.changed().empty()) {
    fmt::print("no daemon runs under {}\n", root);
    return {};
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  mps::PoolSet pools(*loop,
                     {.daemons = {.paths = {root},
                                  .home = daemon_home(options, config.flags, root),
                                  .supervisor = options.supervisor,
                                  .endings = endings}},
                     modes, [] {});
  // Without a control program, queries fail, and daemons are signalled after their timeout.
  pools.set_binary(control_program(options, config.flags, root)
                       .value_or(mps::ControlBinary{.path = "nvidia-cuda-mps-control", .env = {}}));
  loop->after(options.stop_patience, [&] { loop->stop(); });
  // The driver must restore compute modes: daemons are ended once it has answered, or after its timeout.
  Status done = fail(Kind::kTimeout, "a daemon or a driver call does not end");
  bool begun = false;
  const auto begin = [&] {
    if (std::exchange(begun, true)) return;
    pools.end(left, [&] {
      done = {};
      loop->stop();
    });
  };
  nvml.emplace(*loop, gpu::NvmlThread::Callbacks{.on_inventory = [&](const auto&) { begin(); }});
  nvml->start(gpu::driver_settings(config.flags, options.driver_root_here));
  loop->after(kAnswer, begin);
  loop->run();
  for (const auto& one : left) fmt::print("{}: daemon {}\n", one.id, done ? "ended" : "asked to end");
  nvml.reset();
  return done;
}

}  // namespace

int end_mps(const MpsOptions& options) {
  const config::ConfigSource source(options, options.config);
  const std::string root = mps_root_of(options, source.view().config.flags);
  if (!source.view().in_force) {  // ending the daemons of the default place is better than ending none
    fmt::print(stderr, "tranche mps --end: no configuration can be used, so daemons are looked for under {} only\n",
               root);
    for (const auto& problem : source.view().problems) fmt::print(stderr, "  {}\n", to_string(problem));
  }
  const auto ended = end_daemons(options, source.view().config, root);
  mps::end_keeper(root, /*wait=*/true);
  if (ended) return 0;
  fmt::print(stderr, "tranche mps --end: {}\n", to_string(ended.error()));
  return 1;
}

}  // namespace tranche::programs
