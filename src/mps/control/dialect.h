#pragma once
// How one tier says what the supervisor decides: with which options its daemon starts, and what each question is in
// runs of nvidia-cuda-mps-control, whose replies become an event again. The supervisor and mps/pool/pool know no
// commands; a tier is one of these. Pure: replies in, runs and events out. Any thread.
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "mps/daemon/supervisor.h"
#include "mps/daemon/tier.h"

namespace tranche::mps {

// One run of the control program.
struct Run {
  std::vector<std::string> words = {};  // its arguments, after its own name
  std::string input = {};               // its standard input
  friend bool operator==(const Run&, const Run&) = default;
};

// One question: a run, and what its reply leads to, which is another run or the event that it came to.
struct Onward;
struct Exchange {
  Run run;
  std::function<Onward(const std::string& reply)> then;
};
struct Onward : std::variant<Event, Exchange> {
  using std::variant<Event, Exchange>::variant;
};

class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual Tier tier() const = 0;
  virtual std::vector<std::string> daemon_options(bool multiuser) const = 0;
  // Ends in Answered, LimitsApplied, LimitsRead, ServerLimitsApplied; or in QuestionFailed.
  virtual Exchange ask(QuestionId id, const DaemonLimits& desired) const = 0;  // desired: which devices to ask for
  virtual Exchange apply(const ApplyLimits& action) const = 0;
  virtual Exchange read(const ReadLimits& action) const = 0;
  virtual Exchange apply_server(const ApplyServerLimits& action) const = 0;
  virtual Run quit(Duration patience) const = 0;  // the daemon's exit is the answer
};

const Dialect& dialect_of(Tier tier);  // for ever

Exchange delete_namespace(const std::string& name);  // tier v3; ends in LimitsApplied

}  // namespace tranche::mps
