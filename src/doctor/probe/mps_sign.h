#pragma once
// Whether this process is an MPS client. The driver does not say, so this is evidence, not knowledge: starting CUDA
// under MPS leaves the process with SOCK_SEQPACKET connections to the server (two, to abstract names, on driver 580);
// without MPS it leaves none. One thread.
#include <set>
#include <string>
#include <vector>

namespace tranche::probe {

struct MpsSign {
  std::string pipe_directory;         // where this process looks for a daemon
  bool control_socket = false;        // there is a socket named `control`
  bool connected = false;             // starting CUDA made connections of the kind that MPS uses
  std::vector<std::string> peers;     // what they lead to; "@…" is an abstract name
  std::vector<std::string> settings;  // "CUDA_MPS_…=…" of this process
};

// The packet connections of this process to local sockets, by inode: taken before CUDA starts.
std::set<unsigned long> local_connections();

MpsSign look_for_mps(const std::set<unsigned long>& before);

}  // namespace tranche::probe
