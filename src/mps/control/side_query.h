#pragma once
// A question to one daemon beside those of its supervisor: run after run until it comes to an event. In its turn among
// the daemon's sessions, within a deadline for all of it. Loop thread.
#include <functional>
#include <memory>

#include "mps/control/dialect.h"
#include "mps/control/sessions.h"

namespace tranche::host {

class Aside {
 public:
  // done comes once, as a turn of its own, and may drop this; never when this is dropped before. A run that failed is
  // the event QuestionFailed.
  using Done = std::function<void(const mps::Event&)>;
  Aside(Loop& loop, Sessions& sessions, ControlTarget target, mps::Exchange question, Duration deadline, Done done);
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  void ask(mps::Exchange what);
  void finish(const mps::Event& event);

  Loop& loop_;
  Sessions& sessions_;
  ControlTarget target_;
  MonoTime due_;
  Done done_;
  std::unique_ptr<Question> question_;
};

}  // namespace tranche::host
