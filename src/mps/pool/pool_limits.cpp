// The limits that the pool's daemon and its servers hold for the clients that they accept next. Each change is set and
// read back in one control session, before a relay admits the next grant's client (docs/internals/mps-contract.md, "A
// grant's own limits").
#include <utility>

#include "mps/control/questions.h"
#include "mps/pool/pool_daemon.h"
#include "os/log/log.h"

namespace tranche::mps {
namespace {

// A server that starts during the session requires one more; not more than one server starts at a time.
constexpr int kMostSessions = 4;

}  // namespace

bool PoolDaemon::holds(const DaemonLimits& limits) const {
  if (state_.turn_unknown) return false;
  return state_.turn ? *state_.turn == limits : own_limits() == limits;
}

void PoolDaemon::set_next_limits(const DaemonLimits& limits, Done done) {
  if (state_.state != State::kServing)
    return done(fail(Kind::kUnavailable, "the MPS daemon of this pool does not serve", settings_.id));
  if (next_limits_) {
    auto before = std::exchange(waiting_limits_, std::make_unique<LimitsChange>(limits, std::move(done)));
    if (before) before->done(fail(Kind::kUnavailable, "the limits of a different grant came first", settings_.id));
    return;
  }
  if (holds(limits)) return done({});
  next_limits_ = std::make_unique<LimitsChange>(limits, std::move(done));
  set_on_servers(servers());
}

void PoolDaemon::set_on_servers(std::vector<int> servers) {
  ++next_limits_->sessions;
  const std::string input = turn_session(servers, next_limits_->limits);
  next_limits_->question =
      sessions_.ask({.input = input, .deadline = settings_.supervisor.question_deadline},
                    [this, servers = std::move(servers)](const Result<std::string>& reply) {
                      const auto question = std::move(next_limits_->question);  // keeps it until this callback returns
                      read_limits_reply(servers, reply);
                    });
}

void PoolDaemon::read_limits_reply(const std::vector<int>& servers, const Result<std::string>& reply) {
  if (!reply) return next_limits_set(std::unexpected(reply.error()));
  const auto running = parse_turn_session(servers, next_limits_->limits, *reply);
  const bool ended_meanwhile = !running && running.error().kind == Kind::kNotFound && !servers.empty();
  if (!running && !ended_meanwhile) return next_limits_set(std::unexpected(running.error()));
  if (running && running->servers == servers) return next_limits_set(running->defaults);
  if (next_limits_->sessions == kMostSessions)
    return next_limits_set(fail(Kind::kUnavailable, "servers of this pool come and go", settings_.id));
  set_on_servers(ended_meanwhile ? std::vector<int>{} : running->servers);
}

void PoolDaemon::next_limits_set(const Result<DaemonLimits>& read) {
  const auto was = std::move(next_limits_);
  if (read) log::debug("pool.limits", {{"pool", settings_.id}, {"next", to_string(was->limits)}});
  feed(read ? Event(AdmissionLimitsSet{was->limits, *read}) : AdmissionLimitsUnknown{to_string(read.error())});
  was->done(read ? Status() : std::unexpected(read.error()));
  if (next_limits_ || !waiting_limits_) return;  // the callback may have started the next one already
  const auto next = std::exchange(waiting_limits_, nullptr);
  set_next_limits(next->limits, std::move(next->done));
}

// The daemon does not serve any more.
void PoolDaemon::abandon_next_limits() {
  if (!next_limits_) return;
  const auto was = std::move(next_limits_);
  const auto next = std::exchange(waiting_limits_, nullptr);
  feed(AdmissionLimitsUnknown{""});
  const Status broken_off = fail(Kind::kUnavailable, "the pool does not serve", settings_.id);
  was->done(broken_off);
  if (next) next->done(broken_off);
}

}  // namespace tranche::mps
