// nvidia-cuda-mps-server: started by the control daemon with the channel as descriptor 3, whose first message has the
// configuration. Exit status 1: it could not acquire its GPUs.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "standins/mps/server.h"

namespace {

constexpr int kChannel = 3;

tranche::sim::ServerOptions read_options(const tranche::sim::Message& message) {
  tranche::sim::ServerOptions options;
  options.uid = static_cast<uid_t>(message.number("uid"));
  options.threads = tranche::sim::parse_percentage(message.text("threads")).value_or(100.0);
  options.priority = static_cast<int>(message.number("priority"));
  std::istringstream memory(message.text("memory"));
  for (std::string key, bytes; memory >> key >> bytes;)
    options.memory.set(key, std::strtoull(bytes.c_str(), nullptr, 10));
  std::istringstream devices(message.text("devices"));
  for (std::string uuid; std::getline(devices, uuid, ',');) options.uuids.push_back(uuid);
  return options;
}

}  // namespace

int main() {
  using namespace tranche::sim;
  ::signal(SIGPIPE, SIG_IGN);
  Fd channel(kChannel);
  Message options;
  if (receive_message(channel.get(), &options) != Received::kMessage || options.verb != "options") {
    std::fputs("nvidia-cuda-mps-server is started by nvidia-cuda-mps-control.\n", stderr);
    return 1;
  }
  auto node = Node::open();
  if (!node) {
    std::fprintf(stderr, "nvidia-cuda-mps-server: %s\n", node.error().c_str());
    return 1;
  }
  MpsServer server(*std::move(node), read_options(options), std::move(channel), MpsLog(STDOUT_FILENO, "Other"));
  return server.start() ? server.run() : 1;
}
