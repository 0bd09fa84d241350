#pragma once
// Private to doctor/verify/live: the places to verify from (cluster, node, container), each of which adds findings
// while it runs; and `tranche probe` as child processes, each in place of a container with a grant. Several may run at
// once. Each function runs the loop while it waits. One thread.
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/model.h"
#include "doctor/verify/deep.h"
#include "doctor/verify/live/verify_program.h"
#include "kube/access.h"
#include "os/loop/loop.h"
#include "os/process/process.h"

namespace tranche::doctor {

// Paths of this process.
struct VerifyPlaces {
  std::string mps_root;       // as the node names it
  std::string mps_root_here;  // as this process sees it
  std::string driver_root;    // of the driver's files
};

struct ClusterLook {
  kube::Access access;
  std::shared_ptr<const nlohmann::json> agent;   // the pod of the status page; null: not readable
  std::shared_ptr<const nlohmann::json> status;  // of the node agent
};

// An Error: there is nothing to check, for example no API server.
Result<ClusterLook> look_at_cluster(const VerifyOptions& options, Findings& checks);
// Creates probe pods on the node, waits for them, and deletes them.
Status try_from_outside(const VerifyOptions& options, const ClusterLook& cluster, Findings& checks);
// In a container that holds shares of MPS.
Status try_inside(const VerifyOptions& options, Findings& checks);
void look_here(const VerifyOptions& options, const config::Config& config, const VerifyPlaces& places,
               Findings& checks);
Status try_limits(const VerifyOptions& options, const VerifyPlaces& places, Findings& checks);

enum class ProbePlace {
  kOwnNamespace,  // a mount namespace with the grant's endpoint, by which the guard attributes the process
  kHere,          // the namespaces of this process: the probe uses the endpoint, and the guard cannot attribute it
  kContainer,     // this process runs in the container that has the grant
};

// A grant as its container has it.
struct GrantHere {
  std::string endpoint;                    // as this process sees it
  std::map<std::string, std::string> env;  // from the node agent
};

class Probes {
 public:
  Probes(os::Loop& loop, std::map<std::string, std::string> environment, ProbePlace place)
      : loop_(loop), environment_(std::move(environment)), place_(place) {}

  struct Running {
    os::Timer timer;
    bool ended = false;
    bool computes = false;
    ProbeRun run = {};
    std::unique_ptr<os::Process> process = {};
  };
  using Started = std::unique_ptr<Running>;
  // `words` follow "probe --json"; `more` replaces variables of the grant.
  Started start(const GrantHere& grant, const std::vector<std::string>& words,
                const std::map<std::string, std::string>& more = {});
  ProbeRun wait(const Started& probe);
  ProbeRun end(const Started& probe, int signal = SIGTERM);  // at SIGTERM the probe ends its context first
  static bool has_ended(const Started& probe) { return probe->ended; }
  // With --stages: launches are in flight.
  static bool computes_or_ended(const Started& probe) { return probe->ended || probe->computes; }
  bool until(const std::function<bool()>& so);  // runs the loop until so() is true; false: not within a minute
  ProbeRun run(const GrantHere& grant, const std::vector<std::string>& words,
               const std::map<std::string, std::string>& more = {});

  void move_to(ProbePlace place) { place_ = place; }
  ProbePlace place() const { return place_; }

  os::Loop& loop() { return loop_; }
  const std::map<std::string, std::string>& environment() const { return environment_; }

 private:
  os::Loop& loop_;
  std::map<std::string, std::string> environment_;
  ProbePlace place_;
};

// The trials of one grant and their judgement, the same in every place.
struct Trial {
  DeepGrant expected;
  GrantHere grant;
  std::optional<GrantHere> neighbour;   // a different slot of the same GPU
  bool observed = false;                // the guard only reports
  std::string deaths_not_covered = {};  // why a client's death can hurt others, as the node agent reports
};

void try_grant(Probes& probes, const VerifyOptions& options, const VerifyPlaces& places, const Trial& trial,
               Findings& checks);

}  // namespace tranche::doctor
