#include "standins/mps/control_client.h"

#include <cstdio>
#include <iostream>

#include "standins/mps/wire.h"

namespace tranche::sim {
namespace {

// false: the daemon is gone.
bool ask(int fd, const std::string& line) {
  Message reply;
  if (!send_message(fd, {"command", {{"text", line}}}) || receive_message(fd, &reply) != Received::kMessage)
    return false;
  const std::string text = reply.text("text");
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return true;
}

}  // namespace

int run_control_client(const std::string& pipe_directory, const std::string& command) {
  // Whoever may use the privileged socket does; others, and containers that see only `control`, use that.
  Fd fd = connect_to(pipe_directory + "/control_privileged");
  if (!fd.valid()) fd = connect_to(pipe_directory + "/control");
  if (!fd.valid() || !send_message(fd.get(), {"ui", {}})) {
    std::fputs("Cannot find MPS control daemon process\n", stderr);
    return 1;
  }
  if (!command.empty()) return ask(fd.get(), command) ? 0 : 1;
  for (std::string line; std::getline(std::cin, line);) {
    if (!ask(fd.get(), line)) return 1;
  }
  return 0;
}

}  // namespace tranche::sim
