#include "host/mps/terminating.h"

#include <utility>

#include "mps/terminate_session.h"

namespace tranche::host {

using mps::TerminateOutcome;

Terminating::Terminating(Loop& loop, Sessions& sessions, const mps::Dialect& dialect, ControlTarget target,
                         std::vector<int> pids, Duration deadline, Done done)
    : loop_(loop),
      sessions_(sessions),
      dialect_(dialect),
      target_(std::move(target)),
      pids_(std::move(pids)),
      due_(loop.now() + deadline),
      done_(std::move(done)) {
  begin();
}

void Terminating::begin() {
  ask(dialect_.terminate(pids_));
}

void Terminating::ask(mps::Termination what) {
  ControlTarget whom = target_;
  whom.words = what.run.words;
  question_ = sessions_.ask(
      {.target = std::move(whom),
       .input = what.run.input,
       .deadline = std::max(Duration{}, due_ - loop_.now()),
       .rank = SessionAsked::Rank::kUrgent},
      [this, then = std::move(what.then), takes_errors = what.takes_errors](const Result<std::string>& reply) {
        if (!reply && !takes_errors) return failed(reply.error());
        auto onward = then(reply);
        if (auto* more = std::get_if<mps::Termination>(&onward)) return ask(std::move(*more));
        auto& outcomes = std::get<Result<std::vector<mps::Terminated>>>(onward);
        if (!outcomes) return failed(outcomes.error());
        finish(*std::move(outcomes));
      });
}

void Terminating::failed(const Error& error) {
  // A daemon that has ended takes its servers along: nobody is anybody's client any more.
  if (error.kind == Kind::kNotFound) {
    return finish(mps::all_terminated_as(pids_, TerminateOutcome::kNotAClient, "the MPS control daemon has ended"));
  }
  // A session that broke off: asked once more, because a daemon that died in it is told from one that lives only then.
  if (error.kind == Kind::kUnavailable && !std::exchange(tried_again_, true)) return begin();
  const bool late = error.kind == Kind::kTimeout || error.kind == Kind::kConflict;
  finish(
      mps::all_terminated_as(pids_, late ? TerminateOutcome::kTimedOut : TerminateOutcome::kRefused, to_string(error)));
}

void Terminating::finish(std::vector<mps::Terminated> outcomes) {
  const auto done = std::exchange(done_, {});
  if (done) done(std::move(outcomes));
}

}  // namespace tranche::host
