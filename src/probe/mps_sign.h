#pragma once
// Whether this process is an MPS client. The driver does not say, so this is evidence, not knowledge: after a context
// was made, a client holds a connection to a socket in the daemon's pipe directory. One thread.
#include <string>
#include <vector>

namespace tranche::probe {

struct MpsSign {
  std::string pipe_directory;         // where this process looks for a daemon
  bool control_socket = false;        // there is a socket named `control`
  bool connected = false;             // and this process holds a connection into that directory
  std::vector<std::string> peers;     // the named sockets that this process is connected to
  std::vector<std::string> settings;  // "CUDA_MPS_…=…" of this process
};

MpsSign look_for_mps();

}  // namespace tranche::probe
