#include "standins/mps/control_client.h"

#include <cstdio>
#include <iostream>

#include "standins/mps/handshake.h"
#include "standins/mps/wire.h"

namespace tranche::sim {
namespace {

// false: the daemon is gone, or has hung up. `failed`: it says so of the command (version 3).
bool ask(int fd, const std::string& line, bool* failed = nullptr) {
  Message reply;
  if (!send_message(fd, {"command", {{"text", line}}}) || receive_message(fd, &reply) != Received::kMessage)
    return false;
  const std::string text = reply.text("text");
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (failed != nullptr) *failed = reply.number("failed") != 0;
  return true;
}

}  // namespace

int run_control_client(const std::string& pipe_directory, const std::string& command) {
  // Whoever may use the privileged socket does; others, and containers that see only `control`, use that.
  Fd fd = connect_to(pipe_directory + "/control_privileged");
  const bool privileged = fd.valid();
  if (!privileged) fd = connect_to(pipe_directory + "/control");
  if (!fd.valid() || !await_hello(fd.get(), -1) || !introduce(fd.get(), ConnectionType::kCommands)) {
    std::fputs("Cannot find MPS control daemon process\n", stderr);
    return 1;
  }
  // A second session while one is open is hung up on: said through the pipe directory, an empty answer through a link.
  const auto refused = [&] {
    if (privileged) std::fputs("Cannot send command to MPS control daemon process\n", stderr);
    return privileged ? 1 : 0;
  };
  bool failed = false;
  if (!command.empty()) return !ask(fd.get(), command, &failed) ? refused() : failed ? 1 : 0;
  bool first = true;
  for (std::string line; std::getline(std::cin, line); first = false) {
    if (!ask(fd.get(), line)) return first ? refused() : 1;
  }
  return 0;
}

}  // namespace tranche::sim
