#pragma once
// The v2 command language of nvidia-cuda-mps-control as text: parses commands, and has the answers and tables that do
// not depend on a server. Formats are those of transcripts/commands.txt. Pure.
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::sim {

enum class CommandKind {
  kUnknown,
  kGetServerList,
  kGetServerStatus,
  kStartServer,
  kShutdownServer,
  kGetClientList,
  kGetDeviceClientList,
  kPs,
  kSetDefaultThreads,
  kGetDefaultThreads,
  kSetThreads,
  kGetThreads,
  kSetDefaultMemory,
  kGetDefaultMemory,
  kSetMemory,
  kGetMemory,
  kSetDefaultPriority,
  kGetDefaultPriority,
  kTerminateClient,
  kDeviceQuery,
  kQuit,
};

struct ControlCommand {
  CommandKind kind = CommandKind::kUnknown;
  std::string line;               // as received, without its line end
  std::string name;               // the first word
  std::vector<std::string> args;  // the words after it
};
ControlCommand parse_command(std::string_view line);
std::string argument(const ControlCommand& command, std::size_t at);  // "" if there are fewer

// As atol: the leading integer, 0 without one. The daemon parses pids like this ("get_client_list" refers to server 0).
std::int64_t loose_number(std::string_view text);

enum class Right {
  kAnyone,  // reading
  kOwner,   // the daemon's user or root, by either socket (measured: root through `control` may terminate clients)
  kOwnerDefault,  // the same, but only through control_privileged
  kQuit,          // like kOwnerDefault, with its own message
};
Right right_needed(CommandKind kind);
std::string refusal(CommandKind kind, uid_t uid);  // the message for a user without that right, with line ends

struct ClientRow {
  pid_t pid = 0;
  std::uint64_t id = 0;
  pid_t server = 0;
  std::string uuid;  // cut to 22 characters when printed
  std::uint64_t pid_namespace = 0;
  std::string command;
};
std::string ps_table(const std::vector<ClientRow>& rows);

struct QueriedDevice {
  int ordinal = 0;
  std::string pci_bus_id;  // NVML's spelling, "00000000:00:06.0"
  std::string uuid;
  std::string name;
};
std::string device_table(const std::string& title, const std::vector<QueriedDevice>& devices, bool csv);

}  // namespace tranche::sim
