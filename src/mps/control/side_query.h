#pragma once
// A query to one daemon outside its supervisor's questions: it runs the exchange's steps until they produce an event.
// It queues in Sessions, and one deadline covers all steps. Loop thread.
#include <functional>
#include <memory>

#include "mps/control/dialect.h"
#include "mps/control/sessions.h"

namespace tranche::host {

class SideQuery {
 public:
  // `done` runs once, in a callback of its own, and may destroy this object; it never runs after this object is
  // destroyed. A run that fails produces the event QuestionFailed.
  using Done = std::function<void(const mps::Event&)>;
  SideQuery(Loop& loop, Sessions& sessions, ControlTarget target, mps::Exchange question, Duration deadline, Done done);
  SideQuery(const SideQuery&) = delete;
  SideQuery& operator=(const SideQuery&) = delete;

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
