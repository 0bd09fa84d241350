#include "mps/control/control_text.h"

namespace tranche::mps::command {

std::string get_server_list() {
  return "get_server_list";
}
std::string get_server_status(int server) {
  return "get_server_status " + std::to_string(server);
}
std::string get_client_list(int server) {
  return "get_client_list " + std::to_string(server);
}
std::string get_default_threads() {
  return "get_default_active_thread_percentage";
}
std::string set_default_threads(Percent threads) {
  return "set_default_active_thread_percentage " + to_string(threads);
}
std::string get_default_memory(std::string_view uuid) {
  return "get_default_device_pinned_mem_limit " + std::string(uuid);
}
std::string set_default_memory(std::string_view uuid, Bytes limit) {
  return "set_default_device_pinned_mem_limit " + std::string(uuid) + ' ' + std::to_string(limit.in_mib()) + 'M';
}
std::string get_server_threads(int server) {
  return "get_active_thread_percentage " + std::to_string(server);
}
std::string set_server_threads(int server, Percent threads) {
  return "set_active_thread_percentage " + std::to_string(server) + ' ' + to_string(threads);
}
std::string get_server_memory(int server, std::string_view uuid) {
  return "get_device_pinned_mem_limit " + std::to_string(server) + ' ' + std::string(uuid);
}
std::string set_server_memory(int server, std::string_view uuid, Bytes limit) {
  return "set_device_pinned_mem_limit " + std::to_string(server) + ' ' + std::string(uuid) + ' ' +
         std::to_string(limit.in_mib()) + 'M';
}
std::string quit(int seconds) {
  return "quit -t " + std::to_string(seconds);
}

std::vector<std::string> health_session() {
  return {get_default_threads(), get_server_list()};
}
std::vector<std::string> server_session(int server, const DaemonLimits& limits) {
  std::vector<std::string> commands{get_server_status(server), get_server_threads(server)};
  for (const auto& [uuid, memory] : limits.memory) commands.push_back(get_server_memory(server, uuid));
  commands.push_back(get_client_list(server));
  return commands;
}

std::vector<std::string> apply_server_session(int server, const DaemonLimits& limits) {
  std::vector<std::string> commands;
  for (const auto& [uuid, memory] : limits.memory) commands.push_back(set_server_memory(server, uuid, memory));
  commands.push_back(set_server_threads(server, limits.threads));
  return commands;
}

std::vector<std::string> apply_session(const DaemonLimits& limits) {
  std::vector<std::string> commands;
  for (const auto& [uuid, memory] : limits.memory) commands.push_back(set_default_memory(uuid, memory));
  commands.push_back(set_default_threads(limits.threads));
  return commands;
}

std::vector<std::string> read_session(const DaemonLimits& limits) {
  std::vector<std::string> commands;
  for (const auto& [uuid, memory] : limits.memory) commands.push_back(get_default_memory(uuid));
  commands.push_back(get_default_threads());
  return commands;
}

std::vector<std::string> turn_session(const std::vector<int>& servers, const DaemonLimits& limits) {
  auto commands = apply_session(limits);
  const auto add = [&](std::vector<std::string> more) { commands.insert(commands.end(), more.begin(), more.end()); };
  for (const int server : servers) add(apply_server_session(server, limits));
  add(read_session(limits));
  for (const int server : servers) {
    for (const auto& [uuid, memory] : limits.memory) commands.push_back(get_server_memory(server, uuid));
    commands.push_back(get_server_threads(server));
  }
  commands.push_back(get_server_list());
  return commands;
}

std::string as_input(const std::vector<std::string>& commands) {
  std::string text;
  for (const auto& one : commands) text += one + '\n';
  return text;
}

}  // namespace tranche::mps::command
