#pragma once
// Runs one CUDA start through a daemon's pipe, on one device of its pool after the other: `tranche probe` as a child
// process, because a start that hangs cannot be cancelled. Dropping it kills the child. Loop thread.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mps/proof/proof_report.h"
#include "os/loop/loop.h"
#include "os/loop/timer.h"
#include "os/process/process.h"

namespace tranche::host {

struct ProofPlan {
  std::vector<std::string> program;        // argv before "--json …": {"/proc/self/exe", "probe"}
  std::map<std::string, std::string> env;  // the daemon's: pipe directory, libraries
  std::vector<std::string> devices;        // UUIDs
  Duration deadline{};                     // for each stage of a start
  std::size_t clients = 0;                 // of the pool now
};

class ProofRun {
 public:
  // `done` runs once, in a callback of its own, and may destroy this object; it never runs after this object is
  // destroyed.
  ProofRun(Loop& loop, ProofPlan plan, std::function<void(const mps::ProofReading&)> done);
  ProofRun(const ProofRun&) = delete;
  ProofRun& operator=(const ProofRun&) = delete;

  pid_t pid() const { return process_ ? process_->ref().pid : 0; }

 private:
  void start_next();
  void ended(const ExitNote& note, bool timed_out);
  void finish(const mps::ProofReading& reading);

  Loop& loop_;
  ProofPlan plan_;
  std::function<void(const mps::ProofReading&)> done_;
  std::size_t at_ = 0;
  std::string output_;
  Timer timer_{loop_};
  std::unique_ptr<Process> process_;
};

}  // namespace tranche::host
