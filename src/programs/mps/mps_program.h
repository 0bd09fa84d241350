#pragma once
// `tranche mps`: owns the MPS control daemons of the node, and nothing else, so that it seldom has to change.
// Configuration and inventory → plan → one supervised daemon per pool; answers on <mps-root>/mps.sock what `tranche
// node` and `tranche status` ask (docs/internals/mps-contract.md). It ends only on request; then it ends every
// daemon first and restores every compute mode that it changed. If it is killed, its daemons run on, and the next start
// adopts them.
#include <string>
#include <vector>

#include "base/time.h"
#include "config/live/config_source.h"
#include "config/resolve.h"
#include "mps/daemon/binary.h"
#include "mps/daemon/daemon_home.h"
#include "mps/daemon/supervisor.h"
#include "mps/proof/proof.h"

namespace tranche::agent {

struct MpsOptions {
  config::GivenFlags flags;         // the device plugin's, as given on the command line: both plan the same
  config::Environment environment;  // of this process
  config::UnknownKeys unknown_keys = config::UnknownKeys::kWarned;
  std::string config_of_node;    // what the node agent writes down as in force, in place of a file; "" = not followed
  std::string mps_root_here;     // where flags.mpsRoot is for this process; "" = the same path
  std::string driver_root_here;  // where the driver's files are for this process; "" = flags.plugin.containerDriverRoot
  std::string system_root = "/";  // where the node's /dev and /sys are for this process
  std::string mps_control;        // nvidia-cuda-mps-control; "" = look for it
  std::string listen;             // /metrics, /healthz, /readyz, "addr:port"; "" = none
  bool daemons_on_host =
      false;                  // --daemon-home host: they run on when this program ends (docs/internals/daemon-home.md)
  std::string daemon_cgroup;  // DaemonHome::cgroup
  int host_pid = 1;           // DaemonHome::host_pid
  mps::SupervisorSettings supervisor;
  mps::ProofSettings proof;
  // What starts CUDA through a daemon to prove that it serves: this program's own `probe`. Empty = no proofs.
  std::vector<std::string> proof_program = {"/proc/self/exe", "probe"};
  Duration search_again = std::chrono::seconds(10);  // for a control program that is not there, a mode that was refused
  Duration stop_patience = std::chrono::seconds(25);  // for everything to end; kubelet's own patience is 30 s
};

// The process's exit status: 0 after SIGTERM, SIGINT or SIGQUIT, 2 for a configuration that cannot be used, 1 otherwise
// (another `tranche mps` serves this MPS root, a process would not end).
int run_mps(const MpsOptions& options);

// `tranche mps --end`: has the running instance end its daemons for good and waits for that; without one, ends the
// daemons that the MPS root names and gives compute modes back. The same exit status.
int end_mps(const MpsOptions& options);

host::DaemonHome daemon_home(const MpsOptions& options, const config::Flags& flags, const std::string& mps_root_here);
// What the control program and CUDA proofs get of our environment. Where the program was found in the mounted driver
// root its libraries are to be found there too: `<mps root>/driver-libraries` then has links to them.
host::ProcessEnvironment control_environment(const MpsOptions& options, const config::Flags& flags,
                                             const std::string& program, const std::string& mps_root_here);
std::string driver_root_here(const MpsOptions& options, const config::Flags& flags);
ConfigPlaces config_places(const MpsOptions& options);
std::string mps_root_of(const MpsOptions& options, const config::Flags& flags);

}  // namespace tranche::agent
