#include "mps/control/side_query.h"

#include <algorithm>
#include <utility>

namespace tranche::host {

SideQuery::SideQuery(Loop& loop, Sessions& sessions, ControlTarget target, mps::Exchange question, Duration deadline,
                     Done done)
    : loop_(loop),
      sessions_(sessions),
      target_(std::move(target)),
      due_(loop.now() + deadline),
      done_(std::move(done)) {
  ask(std::move(question));
}

void SideQuery::ask(mps::Exchange what) {
  ControlTarget to = target_;
  to.words = what.run.words;
  question_ = sessions_.ask({.target = std::move(to),
                             .input = what.run.input,
                             .deadline = std::max(Duration{}, due_ - loop_.now()),
                             .rank = SessionAsked::Rank::kUrgent},
                            [this, then = std::move(what.then)](const Result<std::string>& reply) {
                              if (!reply) return finish(mps::QuestionFailed{0, reply.error()});
                              auto onward = then(*reply);
                              if (auto* more = std::get_if<mps::Exchange>(&onward)) return ask(std::move(*more));
                              finish(std::get<mps::Event>(onward));
                            });
}

void SideQuery::finish(const mps::Event& event) {
  const auto done = std::exchange(done_, {});
  if (done) done(event);
}

}  // namespace tranche::host
