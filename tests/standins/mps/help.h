#pragma once
// What `nvidia-cuda-mps-control -h` and -v print. The options and commands are those of release 580, the words are
// ours.

namespace tranche::sim {

inline constexpr const char* kControlVersion = "CUDA MPS Control for Linux/Unix/QNX. Binary version: 13000\n";

inline constexpr const char* kControlHelp =
    R"(Stand-in for nvidia-cuda-mps-control of release 580 on a simulated node.

nvidia-cuda-mps-control [options] [command]
OPTIONS:
  -h,--help                This text
  -v,--version             The version
  -d,--daemon              Serve in the background
  -f,--forground           Serve in the foreground
  -M,--multiuser-server    One server for all users
  -q,--ready-devices       Ask for the devices at start

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

}  // namespace tranche::sim
