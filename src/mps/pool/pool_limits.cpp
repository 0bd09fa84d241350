// Sets the limits for the clients that the pool's daemon accepts next: sets them and reads them back in one control
// session, before a relay admits the next grant's client (docs/internals/mps-contract.md, "A grant's own limits").
#include <utility>

#include "mps/control/control_text.h"
#include "mps/limits/turn_session.h"
#include "mps/pool/pool.h"

namespace tranche::host {
namespace {

// A server that starts during the session requires one more; not more than one server starts at a time.
constexpr int kMostSessions = 4;

}  // namespace

bool Pool::holds(const mps::DaemonLimits& limits) const {
  if (state_.turn_unknown) return false;
  return state_.turn ? *state_.turn == limits : own_limits() == limits;
}

void Pool::tell_next(const mps::DaemonLimits& limits, Told done) {
  // In v3, each grant's namespace has its own limits.
  if (dialect_.tier() == mps::Tier::kV3) return done({});
  if (state_.state != mps::State::kServing)
    return done(fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", settings_.id));
  if (telling_) {
    auto before = std::exchange(telling_next_, std::make_unique<Telling>(limits, std::move(done)));
    if (before) before->done(fail(Kind::kUnavailable, "another grant's limits came first", settings_.id));
    return;
  }
  if (holds(limits)) return done({});
  telling_ = std::make_unique<Telling>(limits, std::move(done));
  std::vector<int> servers;
  for (const auto& server : state_.servers) servers.push_back(server.pid);
  tell_servers(std::move(servers));
}

void Pool::tell_servers(std::vector<int> servers) {
  ++telling_->sessions;
  const std::string input = mps::command::as_input(mps::command::turn_session(servers, telling_->limits));
  telling_->question =
      sessions_.ask({.target = target(), .input = input, .deadline = settings_.supervisor.question_deadline},
                    [this, servers = std::move(servers)](const Result<std::string>& reply) {
                      // keeps the question until this callback returns
                      const auto question = std::move(telling_->question);
                      hear_servers(servers, reply);
                    });
}

void Pool::hear_servers(const std::vector<int>& servers, const Result<std::string>& reply) {
  if (!reply) return told(std::unexpected(reply.error()));
  const auto running = mps::parse_turn_session(servers, telling_->limits, *reply);
  const bool ended_meanwhile = !running && running.error().kind == Kind::kNotFound && !servers.empty();
  if (!running && !ended_meanwhile) return told(std::unexpected(running.error()));
  if (running && running->servers == servers) return told(running->defaults);
  if (telling_->sessions == kMostSessions)
    return told(fail(Kind::kUnavailable, "servers of this pool come and go", settings_.id));
  tell_servers(ended_meanwhile ? std::vector<int>{} : running->servers);
}

void Pool::told(const Result<mps::LimitsReadBack>& read) {
  const Status status = read ? Status() : std::unexpected(read.error());
  const Telling telling = std::move(*telling_);
  telling_.reset();
  feed(read ? mps::Event(mps::TurnTold{telling.limits, *read})
            : mps::Event(mps::TurnNotTold{to_string(status.error())}));
  telling.done(status);
  if (telling_ || !telling_next_) return;  // the callback may have started the next one already
  const auto next = std::exchange(telling_next_, nullptr);
  tell_next(next->limits, std::move(next->done));
}

void Pool::break_off_telling(const std::string& why) {
  if (!telling_) return;
  const Telling telling = std::move(*telling_);
  const auto next = std::exchange(telling_next_, nullptr);
  telling_.reset();
  feed(mps::TurnNotTold{});
  const Status broken_off = fail(Kind::kUnavailable, why, settings_.id);
  telling.done(broken_off);
  if (next) next->done(broken_off);
}

}  // namespace tranche::host
