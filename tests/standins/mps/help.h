#pragma once
// The output of `nvidia-cuda-mps-control -h` and -v. Options and commands are those of release 580; the text is
// original.
#include <string>

namespace tranche::sim {

inline std::string control_version(int release) {
  const char* const binary = release >= 615 ? "13040" : release >= 590 ? "13010" : "13000";
  return std::string("CUDA MPS Control for Linux/Unix/QNX. Binary version: ") + binary + "\n";
}

inline constexpr const char* kControlOptions =
    R"(
nvidia-cuda-mps-control [options] [command]
OPTIONS:
  -h,--help                This text
  -v,--version             The version
  -d,--daemon              Serve in the background
  -f,--forground           Serve in the foreground
  -M,--multiuser-server    One server for all users
  -q,--ready-devices       Ask for the devices at start
)";
inline constexpr const char* kControlCommands =
    R"(
COMMAND:
  start_server -uid <user id>
  quit [-t <seconds>]
  get_server_list
  get_server_status <PID>
  shutdown_server <PID> [-f]
  get_client_list <PID>
  get_device_client_list [<PID>]
  ps [-p PID]
  set_default_active_thread_percentage <percentage>
  get_default_active_thread_percentage
  set_active_thread_percentage <PID> <percentage>
  get_active_thread_percentage <PID>
  set_default_device_pinned_mem_limit <dev> <value>
  get_default_device_pinned_mem_limit <dev>
  set_device_pinned_mem_limit <PID> <dev> <value>
  get_device_pinned_mem_limit <PID> <dev>
  set_default_client_priority <priority>
  get_default_client_priority
  terminate_client <server PID> <client PID>
  device_query [<PID>] [--csv]
)";

inline std::string control_help(int release) {
  return "Stand-in for nvidia-cuda-mps-control of release " + std::to_string(release) + " on a simulated node.\n" +
         kControlOptions + kControlCommands;
}

}  // namespace tranche::sim
