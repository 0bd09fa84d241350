#pragma once
// The protocol between the MPS stand-ins: the control daemon, its servers, the command client and simulated CUDA
// processes. A connection to `<pipe>/control` or `<pipe>/control_privileged` begins like the real one (handshake.h:
// greeting, credentials, type; for clients the descriptor, the exchange on it and its acknowledgement, commands and
// their answers). The rest of the real format is unpublished, so this one is original: a message is one
// SOCK_SEQPACKET packet of text lines, a verb, then `key value` lines, with at most one descriptor.
//
//   after type 2      daemon → caller   message 4, with a connection to the server; may come much later (pending list)
//                                       refused code=805   no server could be started
//
// On the connection between a client and its server:
//   init → ready devices=UUID,… threads=PCT (+fd: of the nvidia-uvm device) | refused code=807
//   context gpu=UUID id threads=PCT lifted=0|1 memory=BYTES
//                                       → context id sms memory server_pid | refused code=46
//   release gpu id=0|ID · work gpu kernel_ns until_ns tensor=0|1 · fault gpu         (no answer)
//   server → client at any time: error code gpu                   sticky: 700, 719, 810
//
// Between the daemon and a server (a socket pair, inherited as descriptor 3; its end is the server's end):
//   server → daemon   ready | clients count | answer id … | stopped
//   daemon → server   client pid uid (+fd) | ask id what … | shutdown
//
// Blocking and non-blocking descriptors both work. Not thread-safe per descriptor and direction.
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tranche::sim {

// A descriptor that is closed by the destructor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct Message {
  std::string verb;
  std::map<std::string, std::string> fields;

  std::string text(const std::string& key) const;  // "" when absent
  std::int64_t number(const std::string& key, std::int64_t otherwise = 0) const;
};

std::string render(const Message& message);
std::optional<Message> parse_message(std::string_view packet);  // nullopt: not a valid message

// false: the peer has disconnected (or never connected). A message may carry one descriptor.
bool send_message(int fd, const Message& message, int attached = -1);
enum class Received { kMessage, kEnd, kNothing, kGarbage };
Received receive_message(int fd, Message* message, Fd* attached = nullptr);

// A listening socket at `path` with these permissions; replaces an old file. Invalid: see errno.
Fd listen_at(const std::string& path, unsigned mode);
Fd connect_to(const std::string& path);
std::pair<Fd, Fd> socket_pair();
struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
};
Peer peer_of(int fd);

}  // namespace tranche::sim
