#include "mps/pool/next_limits.h"

#include <utility>

#include "mps/control/control_text.h"
#include "mps/limits/turn_session.h"

namespace tranche::host {
namespace {

// A server that starts during the session requires one more; not more than one server starts at a time.
constexpr int kMostSessions = 4;

}  // namespace

NextLimits::NextLimits(Sessions& sessions, std::string pool, Duration deadline, Callbacks callbacks)
    : sessions_(sessions), pool_(std::move(pool)), deadline_(deadline), callbacks_(std::move(callbacks)) {}

void NextLimits::set(const mps::DaemonLimits& limits, Done done) {
  if (current_) {
    auto before = std::exchange(waiting_, std::make_unique<Change>(limits, std::move(done)));
    if (before) before->done(fail(Kind::kUnavailable, "the limits of a different grant came first", pool_));
    return;
  }
  if (callbacks_.are_held(limits)) return done({});
  current_ = std::make_unique<Change>(limits, std::move(done));
  set_on_servers(callbacks_.servers());
}

void NextLimits::set_on_servers(std::vector<int> servers) {
  ++current_->sessions;
  const std::string input = mps::command::as_input(mps::command::turn_session(servers, current_->limits));
  current_->question = sessions_.ask({.target = callbacks_.target(), .input = input, .deadline = deadline_},
                                     [this, servers = std::move(servers)](const Result<std::string>& reply) {
                                       // keeps the question until this callback returns
                                       const auto question = std::move(current_->question);
                                       read_reply(servers, reply);
                                     });
}

void NextLimits::read_reply(const std::vector<int>& servers, const Result<std::string>& reply) {
  if (!reply) return finish(std::unexpected(reply.error()));
  const auto running = mps::parse_turn_session(servers, current_->limits, *reply);
  const bool ended_meanwhile = !running && running.error().kind == Kind::kNotFound && !servers.empty();
  if (!running && !ended_meanwhile) return finish(std::unexpected(running.error()));
  if (running && running->servers == servers) return finish(running->defaults);
  if (current_->sessions == kMostSessions)
    return finish(fail(Kind::kUnavailable, "servers of this pool come and go", pool_));
  set_on_servers(ended_meanwhile ? std::vector<int>{} : running->servers);
}

void NextLimits::finish(const Result<mps::LimitsReadBack>& read) {
  const Status status = read ? Status() : std::unexpected(read.error());
  const auto was = std::move(current_);
  if (read)
    callbacks_.set(was->limits, *read);
  else
    callbacks_.not_set(to_string(status.error()));
  was->done(status);
  if (current_ || !waiting_) return;  // the callback may have started the next one already
  const auto next = std::exchange(waiting_, nullptr);
  set(next->limits, std::move(next->done));
}

void NextLimits::abandon(const std::string& why) {
  if (!current_) return;
  const auto was = std::move(current_);
  const auto next = std::exchange(waiting_, nullptr);
  callbacks_.not_set("");
  const Status broken_off = fail(Kind::kUnavailable, why, pool_);
  was->done(broken_off);
  if (next) next->done(broken_off);
}

}  // namespace tranche::host
