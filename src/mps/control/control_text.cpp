#include "mps/control/control_text.h"

#include <fmt/format.h>

#include <optional>

namespace tranche::mps::command {
namespace {

using Commands = std::vector<std::string>;
using Server = std::optional<int>;  // whose limits; absent: the daemon's defaults

std::string threads_of(std::string_view verb, Server server) {
  if (!server) return fmt::format("{}_default_active_thread_percentage", verb);
  return fmt::format("{}_active_thread_percentage {}", verb, *server);
}

std::string memory_of(std::string_view verb, Server server, const std::string& uuid) {
  if (!server) return fmt::format("{}_default_device_pinned_mem_limit {}", verb, uuid);
  return fmt::format("{}_device_pinned_mem_limit {} {}", verb, *server, uuid);
}

void get(Commands& commands, const DaemonLimits& limits, Server server) {
  for (const auto& [uuid, memory] : limits.memory) commands.push_back(memory_of("get", server, uuid));
  commands.push_back(threads_of("get", server));
}

void set(Commands& commands, const DaemonLimits& limits, Server server) {
  for (const auto& [uuid, memory] : limits.memory)
    commands.push_back(fmt::format("{} {}M", memory_of("set", server, uuid), memory.in_mib()));
  commands.push_back(threads_of("set", server) + ' ' + to_string(limits.threads));
}

constexpr const char* kServers = "get_server_list";

}  // namespace

Commands health_session() {
  return {threads_of("get", {}), kServers};
}

Commands server_session(int server, const DaemonLimits& limits) {
  Commands commands{fmt::format("get_server_status {}", server), threads_of("get", server)};
  for (const auto& [uuid, memory] : limits.memory) commands.push_back(memory_of("get", server, uuid));
  commands.push_back(fmt::format("get_client_list {}", server));
  return commands;
}

Commands apply_session(const DaemonLimits& limits, std::optional<int> server) {
  Commands commands;
  set(commands, limits, server);
  return commands;
}

Commands read_session(const DaemonLimits& limits) {
  Commands commands;
  get(commands, limits, {});
  return commands;
}

Commands turn_session(const std::vector<int>& servers, const DaemonLimits& limits) {
  auto commands = apply_session(limits);
  for (const int server : servers) set(commands, limits, server);
  get(commands, limits, {});
  for (const int server : servers) get(commands, limits, server);
  commands.push_back(kServers);
  return commands;
}

std::string as_input(const Commands& commands) {
  std::string text;
  for (const auto& one : commands) text += one + '\n';
  return text;
}

}  // namespace tranche::mps::command
