#pragma once
// `tranche mps`: owns the MPS control daemons of the node and has no other task, so that it rarely needs an upgrade.
// Configuration and inventory → plan → one supervised daemon per pool; answers requests of `tranche node` and `tranche
// status` on <mps-root>/mps.sock (docs/internals/mps-contract.md). It exits only on request; before that it ends every
// daemon and restores every compute mode that it changed. If it is killed, its daemons keep running, and the next start
// adopts them.
#include <string>
#include <vector>

#include "base/time.h"
#include "config/live/config_source.h"
#include "config/resolve.h"
#include "mps/control/control_client.h"
#include "mps/daemon/daemon_home.h"
#include "mps/daemon/supervisor.h"
#include "mps/proof/proof.h"
#include "os/files/files.h"

namespace tranche::programs {

// With the device plugin's flags: both programs plan the same.
struct MpsOptions : config::Invocation {
  config::ConfigPlaces config;   // `written`: the configuration recorded by the node agent, instead of a file
  std::string mps_root_here;     // where flags.mpsRoot is for this process; "" = the same path
  std::string driver_root_here;  // where the driver's files are for this process; "" = flags.plugin.containerDriverRoot
  std::string system_root = "/";  // where the node's /dev and /sys are for this process
  std::string mps_control;        // nvidia-cuda-mps-control; "" = search for it
  std::string listen;             // /metrics, /healthz, /readyz, "addr:port"; "" = none
  bool daemons_on_host =
      false;  // --daemon-home host: daemons keep running when this program exits (docs/internals/daemon-home.md)
  std::string daemon_cgroup;  // DaemonHome::cgroup
  int host_pid = 1;           // DaemonHome::host_pid
  mps::SupervisorSettings supervisor;
  mps::ProofSettings proof;
  // The program that tests a daemon with a CUDA start: this program's own `probe`. Empty = no tests.
  std::vector<std::string> proof_program = {"/proc/self/exe", "probe"};
  Duration search_again = std::chrono::seconds(10);   // for a missing control program, or a refused mode
  Duration stop_patience = std::chrono::seconds(25);  // for everything to end; kubelet's own limit is 30 s
};

// Returns the exit status: 0 after SIGTERM, SIGINT or SIGQUIT, 2 for an unusable configuration, 1 otherwise (another
// `tranche mps` serves this MPS root, a process did not end).
int run_mps(const MpsOptions& options);

// `tranche mps --end`: has the running instance end its daemons permanently and waits for that; without one, ends the
// daemons that the MPS root names and restores compute modes. The same exit status.
int end_mps(const MpsOptions& options);

// Only one `tranche mps` may serve an MPS root: two would compete for the daemons. A lock on <mps-root>/mps.lock, which
// the kernel releases with the process, so a stale lock cannot remain. kConflict names the process that holds the lock.
// The directory must exist. Call once per process: closing any other descriptor of the file releases the lock.
Result<os::FileLock> lock_mps_root(const std::string& mps_root);

mps::DaemonHome daemon_home(const MpsOptions& options, const config::Flags& flags, const std::string& mps_root_here);
// The control program, not asked for its version yet, with its environment, which is that of CUDA tests too. A program
// from the mounted driver root must find its libraries there too: `<mps root>/driver-libraries` then has links to them.
Result<mps::ControlBinary> control_program(const MpsOptions& options, const config::Flags& flags,
                                           const std::string& mps_root_here);
std::string mps_root_of(const MpsOptions& options, const config::Flags& flags);

}  // namespace tranche::programs
