#pragma once
// Ends clients of one daemon through MPS, in the words of its tier (mps/dialect.h). One outcome for each process,
// within the deadline, whatever the daemon does. Loop thread.
#include <functional>
#include <memory>
#include <vector>

#include "host/mps/sessions.h"
#include "mps/dialect.h"

namespace tranche::host {

class Terminating {
 public:
  using Done = std::function<void(std::vector<mps::Terminated>)>;
  // done comes once, as a turn of its own, and may drop this; never when this is dropped before.
  Terminating(Loop& loop, Sessions& sessions, const mps::Dialect& dialect, ControlTarget target, std::vector<int> pids,
              Duration deadline, Done done);
  Terminating(const Terminating&) = delete;
  Terminating& operator=(const Terminating&) = delete;

 private:
  void begin();
  void ask(mps::Termination what);
  void finish(std::vector<mps::Terminated> outcomes);
  void failed(const Error& error);

  Loop& loop_;
  Sessions& sessions_;
  const mps::Dialect& dialect_;
  ControlTarget target_;
  std::vector<int> pids_;
  MonoTime due_;
  Done done_;
  bool tried_again_ = false;
  std::unique_ptr<Question> question_;
};

}  // namespace tranche::host
