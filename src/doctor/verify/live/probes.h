#pragma once
// Private to doctor/verify/live: `tranche probe` as child processes, each in the place of a container with a grant.
// Several may run at once; everything here runs one loop while it waits. One thread.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "doctor/verify/deep.h"
#include "doctor/verify/live/looks.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/process/process.h"

namespace tranche::verify {

enum class ProbePlace {
  kOwnNamespace,  // a mount namespace of its own with the grant's endpoint, by which the guard knows whose it is
  kHere,          // where this process is: it goes through the endpoint, and the guard does not know whose it is
  kContainer,     // this process is in the container that has the grant
};

// What its container would have.
struct GrantHere {
  std::string endpoint;                    // as this process sees it
  std::map<std::string, std::string> env;  // that the node agent gave
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
  // `words` go behind "probe --json"; `more` over the grant's variables.
  Started start(const GrantHere& grant, const std::vector<std::string>& words,
                const std::map<std::string, std::string>& more = {});
  ProbeRun wait(const Started& probe);
  ProbeRun end(const Started& probe);   // asks it to end first: it does so in order
  ProbeRun kill(const Started& probe);  // whatever is in flight
  static bool has_ended(const Started& probe) { return probe->ended; }
  // With --stages: launches are in flight.
  static bool computes_or_ended(const Started& probe) { return probe->ended || probe->computes; }
  bool until(const std::function<bool()>& so);  // runs the loop; false: it was not so within a minute
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

// What is tried with one grant, and judged. The same wherever the probes run.
struct Trial {
  DeepGrant expected;
  GrantHere grant;
  std::optional<GrantHere> neighbour;   // a different slot of the same GPU
  bool observed = false;                // the guard only reports
  std::string deaths_not_covered = {};  // why the node agent says that a client's death can hurt others
};

void try_grant(Probes& probes, const VerifyOptions& options, const VerifyPlaces& places, const Trial& trial,
               Findings& checks);
// "deep.deaths". A death can harm other pods' clients where tranche-keeper does not hold the client: then it is not
// tried beside them.
void try_deaths(Probes& probes, const VerifyPlaces& places, const Trial& trial, bool tensor_cores, Findings& checks);

}  // namespace tranche::verify
