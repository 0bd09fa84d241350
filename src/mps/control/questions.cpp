#include "mps/control/questions.h"

#include "mps/control/control_text.h"
#include "mps/control/daemon_replies.h"

namespace tranche::mps {
namespace {

using command::as_input;

// Queries one server after the other, each in a session of its own.
Onward ask_next_server(QuestionId id, const DaemonLimits& desired, std::vector<int> left,
                       std::vector<ServerSeen> seen) {
  if (left.empty()) return Event(Answered{id, std::move(seen)});
  const int pid = left.front();
  left.erase(left.begin());
  return Exchange{as_input(command::server_session(pid, desired)), [=](const std::string& reply) {
                    auto all = seen;
                    const auto server = parse_server_session(desired, reply);
                    if (server) all.push_back({pid, server->status, server->clients, server->limits, {}});
                    // A server that exited in between is not the daemon's fault.
                    if (!server && server.error().kind != Kind::kNotFound) all.push_back({pid, "", {}, {}, {}});
                    return ask_next_server(id, desired, left, std::move(all));
                  }};
}

}  // namespace

std::vector<std::string> daemon_options(bool multiuser) {
  return multiuser ? std::vector<std::string>{"-f", "-M"} : std::vector<std::string>{"-f"};
}

Exchange ask_servers(QuestionId id, const DaemonLimits& desired) {
  return {as_input(command::health_session()), [id, desired](const std::string& reply) -> Onward {
            auto servers = parse_health_session(reply);
            if (!servers) return Event(QuestionFailed{id, servers.error()});
            return ask_next_server(id, desired, *std::move(servers), {});
          }};
}

Exchange apply_limits(const ApplyLimits& action) {
  return {as_input(command::apply_session(action.limits)), [action](const std::string& reply) -> Onward {
            const auto applied = parse_apply_session(action.limits, reply);
            if (!applied) return Event(QuestionFailed{action.id, applied.error()});
            return Event(LimitsApplied{action.id});
          }};
}

Exchange read_limits(const ReadLimits& action) {
  return {as_input(command::read_session(action.limits)), [action](const std::string& reply) -> Onward {
            auto values = parse_read_session(action.limits, reply);
            if (!values) return Event(QuestionFailed{action.id, values.error()});
            return Event(LimitsRead{action.id, *std::move(values)});
          }};
}

Exchange apply_server_limits(const ApplyServerLimits& action) {
  return {as_input(command::apply_session(action.limits, action.server)),
          // The next answer shows whether the server refused or has exited.
          [id = action.id](const std::string&) -> Onward { return Event(ServerLimitsApplied{id}); }};
}

std::string quit_daemon(Duration patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  return as_input({"quit -t " + std::to_string(seconds)});  // the longest wait for clients to exit
}

}  // namespace tranche::mps
