#include "standins/mps/commands.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace tranche::sim {
namespace {

constexpr std::array<std::pair<std::string_view, CommandKind>, 20> kCommands{{
    {"get_server_list", CommandKind::kGetServerList},
    {"get_server_status", CommandKind::kGetServerStatus},
    {"start_server", CommandKind::kStartServer},
    {"shutdown_server", CommandKind::kShutdownServer},
    {"get_client_list", CommandKind::kGetClientList},
    {"get_device_client_list", CommandKind::kGetDeviceClientList},
    {"ps", CommandKind::kPs},
    {"set_default_active_thread_percentage", CommandKind::kSetDefaultThreads},
    {"get_default_active_thread_percentage", CommandKind::kGetDefaultThreads},
    {"set_active_thread_percentage", CommandKind::kSetThreads},
    {"get_active_thread_percentage", CommandKind::kGetThreads},
    {"set_default_device_pinned_mem_limit", CommandKind::kSetDefaultMemory},
    {"get_default_device_pinned_mem_limit", CommandKind::kGetDefaultMemory},
    {"set_device_pinned_mem_limit", CommandKind::kSetMemory},
    {"get_device_pinned_mem_limit", CommandKind::kGetMemory},
    {"set_default_client_priority", CommandKind::kSetDefaultPriority},
    {"get_default_client_priority", CommandKind::kGetDefaultPriority},
    {"terminate_client", CommandKind::kTerminateClient},
    {"device_query", CommandKind::kDeviceQuery},
    {"quit", CommandKind::kQuit},
}};

// "0000:00.06.00", device_query's format of "00000000:00:06.0".
std::string query_pci(const std::string& bus_id) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(bus_id.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) return bus_id;
  char text[48];
  std::snprintf(text, sizeof text, "%04x:%02x.%02x.%02x", domain, bus, device, function);
  return text;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

}  // namespace

ControlCommand parse_command(std::string_view line) {
  ControlCommand command;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  command.line = line;
  std::vector<std::string> words;
  for (std::size_t at = line.find_first_not_of(" \t"); at != std::string_view::npos;) {
    const auto end = line.find_first_of(" \t", at);
    words.emplace_back(line.substr(at, end - at));
    at = end == std::string_view::npos ? end : line.find_first_not_of(" \t", end);
  }
  if (words.empty()) return command;
  command.name = words.front();
  command.args.assign(words.begin() + 1, words.end());
  const auto found = std::ranges::find(kCommands, command.name, &std::pair<std::string_view, CommandKind>::first);
  if (found != kCommands.end()) command.kind = found->second;
  return command;
}

std::string argument(const ControlCommand& command, std::size_t at) {
  return at < command.args.size() ? command.args[at] : std::string();
}

std::int64_t loose_number(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  std::int64_t value = 0;
  for (const char c : text.substr(negative ? 1 : 0)) {
    if (c < '0' || c > '9' || value > (INT64_MAX - 9) / 10) break;
    value = value * 10 + (c - '0');
  }
  return negative ? -value : value;
}

Right right_needed(CommandKind kind) {
  switch (kind) {
    case CommandKind::kSetDefaultThreads:
    case CommandKind::kSetDefaultMemory:
    case CommandKind::kSetDefaultPriority:
      return Right::kOwnerDefault;
    case CommandKind::kStartServer:
    case CommandKind::kShutdownServer:
    case CommandKind::kSetThreads:
    case CommandKind::kSetMemory:
    case CommandKind::kTerminateClient:
      return Right::kOwner;
    case CommandKind::kQuit:
      return Right::kQuit;
    default:
      return Right::kAnyone;
  }
}

std::string refusal(CommandKind kind, uid_t uid) {
  if (kind == CommandKind::kQuit) return "Not enough privilege to execute quit command\n";
  // The daemon's spelling.
  std::string text = "Insufficient privileges for UID " + std::to_string(uid) +
                     ". Control deamon settings can only be modified by the user who started it or by the root user.\n";
  if (kind == CommandKind::kTerminateClient) text += "800\n";
  return text;
}

std::string ps_table(const std::vector<ClientRow>& rows) {
  const auto line = [](std::string pid, std::string id, std::string server, std::string device, std::string space,
                       std::string command) {
    return padded(std::move(pid), 10) + padded(std::move(id), 10) + padded(std::move(server), 15) +
           padded(std::move(device), 26) + padded(std::move(space), 15) + padded(std::move(command), 15) + "\n";
  };
  std::string text = line("PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND");
  for (const auto& row : rows) {
    text += line(std::to_string(row.pid), std::to_string(row.id), std::to_string(row.server), row.uuid.substr(0, 22),
                 std::to_string(row.pid_namespace), row.command);
  }
  return text;
}

std::string device_table(const std::string& title, const std::vector<QueriedDevice>& devices, bool csv) {
  const auto line = [csv](const std::string& ordinal, const std::string& pci, const std::string& uuid,
                          const std::string& name, const std::string& attributes) {
    if (csv) return ordinal + "," + pci + "," + uuid + "," + name + "," + attributes + "\n";
    return padded(ordinal, 16) + padded(pci, 15) + padded(uuid, 42) + padded(name, 34) + attributes + "\n";
  };
  std::string text = title + "\n" + line("Device Ordinal", "PCI IDs", "UUID", "Name", "Attributes");
  for (const auto& device : devices) {
    text += line(std::to_string(device.ordinal), query_pci(device.pci_bus_id), device.uuid, device.name, "N/A");
  }
  return text;
}

}  // namespace tranche::sim
