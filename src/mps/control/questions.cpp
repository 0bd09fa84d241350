#include "mps/control/questions.h"

#include <fmt/format.h>

#include <optional>

#include "mps/control/daemon_replies.h"

namespace tranche::mps {
namespace {

using Server = std::optional<int>;  // whose limits; absent: the daemon's defaults

constexpr const char* kServers = "get_server_list\n";

std::string threads_of(std::string_view verb, Server server) {
  if (!server) return fmt::format("{}_default_active_thread_percentage", verb);
  return fmt::format("{}_active_thread_percentage {}", verb, *server);
}

std::string memory_of(std::string_view verb, Server server, const std::string& uuid) {
  if (!server) return fmt::format("{}_default_device_pinned_mem_limit {}", verb, uuid);
  return fmt::format("{}_device_pinned_mem_limit {} {}", verb, *server, uuid);
}

std::string get_memory(const DaemonLimits& limits, Server server) {
  std::string input;
  for (const auto& [uuid, memory] : limits.memory) input += memory_of("get", server, uuid) + '\n';
  return input;
}

std::string get(const DaemonLimits& limits, Server server = {}) {
  return get_memory(limits, server) + threads_of("get", server) + '\n';
}

std::string set(const DaemonLimits& limits, Server server = {}) {
  std::string input;
  for (const auto& [uuid, memory] : limits.memory)
    input += fmt::format("{} {}M\n", memory_of("set", server, uuid), memory.in_mib());
  return input + fmt::format("{} {}\n", threads_of("set", server), to_string(limits.threads));
}

// Queries one server after the other, each in a session of its own.
Onward ask_next_server(QuestionId id, const DaemonLimits& desired, std::vector<int> left,
                       std::vector<ServerSeen> seen) {
  if (left.empty()) return Event(Answered{id, std::move(seen)});
  const int pid = left.front();
  left.erase(left.begin());
  auto input = fmt::format("get_server_status {}\n{}\n{}get_client_list {}\n", pid, threads_of("get", pid),
                           get_memory(desired, pid), pid);
  return Exchange{std::move(input), [=](const std::string& reply) {
                    auto all = seen;
                    const auto server = parse_server_session(desired, reply);
                    // A server that exited in between is not the daemon's fault.
                    if (server || server.error().kind != Kind::kNotFound) {
                      all.push_back(server.value_or(ServerSeen{}));
                      all.back().pid = pid;
                    }
                    return ask_next_server(id, desired, left, std::move(all));
                  }};
}

}  // namespace

std::vector<std::string> daemon_options(bool multiuser) {
  return multiuser ? std::vector<std::string>{"-f", "-M"} : std::vector<std::string>{"-f"};
}

Exchange ask_servers(QuestionId id, const DaemonLimits& desired) {
  return {threads_of("get", {}) + '\n' + kServers, [id, desired](const std::string& reply) -> Onward {
            auto servers = parse_health_session(reply);
            if (!servers) return Event(QuestionFailed{id, servers.error()});
            return ask_next_server(id, desired, *std::move(servers), {});
          }};
}

Exchange exchange_for(const ApplyLimits& action) {
  return {set(action.limits), [action](const std::string& reply) -> Onward {
            const auto applied = parse_apply_session(action.limits, reply);
            if (!applied) return Event(QuestionFailed{action.id, applied.error()});
            return Event(LimitsApplied{action.id});
          }};
}

Exchange exchange_for(const ReadLimits& action) {
  return {get(action.limits), [action](const std::string& reply) -> Onward {
            auto values = parse_read_session(action.limits, reply);
            if (!values) return Event(QuestionFailed{action.id, values.error()});
            return Event(LimitsRead{action.id, *std::move(values)});
          }};
}

Exchange exchange_for(const ApplyServerLimits& action) {
  return {set(action.limits, action.server),
          // The next answer shows whether the server refused or has exited.
          [id = action.id](const std::string&) -> Onward { return Event(ServerLimitsApplied{id}); }};
}

std::string quit_daemon(Duration patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  return fmt::format("quit -t {}\n", seconds);  // the longest wait for clients to exit
}

std::string turn_session(const std::vector<int>& servers, const DaemonLimits& limits) {
  std::string input = set(limits);
  for (const int server : servers) input += set(limits, server);
  input += get(limits);
  for (const int server : servers) input += get(limits, server);
  return input + kServers;
}

}  // namespace tranche::mps
