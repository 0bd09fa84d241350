#pragma once
// What the two small programs do to the world, without the C++ library: reading a short file, asking a drain socket,
// saying a line. Blocking, and never for longer than they are told. Single-threaded programs only.
#include <span>
#include <string_view>

namespace tranche::drain {

// A text that is put together on the stack; what does not fit makes it unusable.
class Text {
 public:
  Text& operator<<(std::string_view piece);
  Text& operator<<(int number);
  bool fits() const { return fits_; }
  bool empty() const { return size_ == 0; }
  const char* c_str() const { return bytes_; }
  std::string_view view() const { return {bytes_, size_}; }

 private:
  char bytes_[4096] = {};
  std::size_t size_ = 0;
  bool fits_ = true;
};

void say(int fd, const Text& line);  // with the end of line; what cannot be written is lost

// The beginning of a regular file of root's that no other user may write, as much as fits; "" when there is no such.
std::string_view read_short(const char* path, std::span<char> into);
// Whether a file can be trusted: it and its folder are root's, and no other user may write them. True where there is
// none.
bool is_roots_alone(const char* path);

// One line to the node's log: the datagram socket of syslog and journald, as a warning. Lost when it cannot be sent at
// once.
void log_line(const char* socket_path, const Text& line);

// Asks for a drain. Returns the line that came ("" when none did) and, then, why in `problem`. With a `signal` (the one
// that the container is about to get; 0: none is said) the drain reports first that the clients are stopped: that is to
// come within `timeout_ms`, and the end of the drain within `longest_ms` after it; a `longest_ms` of 0 does not wait
// for the end.
struct Called {
  std::string_view line;
  const char* problem = nullptr;
  int error = 0;  // errno, with problem
};
Called ask_for_drain(std::string_view socket_path, int timeout_ms, std::span<char> into, int signal = 0,
                     int longest_ms = 0);

}  // namespace tranche::drain
