#include "standins/mps/control_client.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "standins/mps/handshake.h"

namespace tranche::sim {
namespace {

// Sends input line by line and prints answers as they arrive.
class CommandSession {
 public:
  explicit CommandSession(int fd) : fd_(fd) {}

  void send(const std::string& line) { lost_ |= !send_command(fd_, line); }
  void last() {
    typing_ = false;
    lost_ |= !send_last(fd_);
  }
  // Runs to the session's end; absent: the daemon disconnected.
  std::optional<std::uint32_t> run() {
    while (!status_ && !lost_) {
      pollfd fds[2] = {{fd_, POLLIN, 0}, {typing_ ? STDIN_FILENO : -1, POLLIN, 0}};
      if (::poll(fds, 2, -1) < 0) continue;
      if (fds[1].revents != 0) type();
      if (fds[0].revents != 0) hear();
    }
    for (lost_ = false; !status_ && !lost_;) hear();  // what it sent before it disconnected
    return status_;
  }
  bool heard() const { return heard_; }

 private:
  void type() {
    char bytes[4096];
    const auto got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got > 0) typed_.append(bytes, static_cast<std::size_t>(got));
    for (auto end = typed_.find('\n'); end != std::string::npos; end = typed_.find('\n')) {
      send(typed_.substr(0, end));
      typed_.erase(0, end + 1);
    }
    if (got > 0) return;
    if (!typed_.empty()) send(typed_);
    last();
  }
  void hear() {
    Packet packet;
    if (receive_packet(fd_, &packet) != Arrived::kPacket) {
      lost_ = true;
      return;
    }
    heard_ = true;
    const auto kind = type_of(std::string_view(packet.bytes).substr(0, 4));
    if (kind == 1u) {
      status_ = type_of(std::string_view(packet.bytes).substr(4)).value_or(1);
      return;
    }
    std::fwrite(packet.bytes.data() + 4, 1, packet.bytes.size() - 4, stdout);
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }

  const int fd_;
  std::string typed_;
  bool typing_ = true;
  bool lost_ = false;
  bool heard_ = false;
  std::optional<std::uint32_t> status_;
};

}  // namespace

int run_control_client(const std::string& pipe_directory, const std::string& command) {
  // Users with access to the privileged socket use it; others, and containers with only `control`, use that.
  Fd fd = connect_to(pipe_directory + "/control_privileged");
  const bool privileged = fd.valid();
  if (!privileged) fd = connect_to(pipe_directory + "/control");
  if (!fd.valid() || !await_hello(fd.get(), -1) || !introduce(fd.get(), ConnectionType::kCommands)) {
    std::fputs("Cannot find MPS control daemon process\n", stderr);
    return 1;
  }
  CommandSession session(fd.get());
  if (!command.empty()) {
    session.send(command);
    session.last();
  }
  if (const auto status = session.run()) return command.empty() ? 0 : static_cast<int>(*status);
  // The daemon disconnects a second session: an error through the pipe directory, an empty answer through a link.
  if (session.heard()) return 1;
  if (privileged) std::fputs("Cannot send command to MPS control daemon process\n", stderr);
  return privileged ? 1 : 0;
}

}  // namespace tranche::sim
