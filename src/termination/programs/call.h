#pragma once
// Input and output of the two small programs, without the C++ library: reading a short file, a request to a drain
// socket, writing a line. Blocking, but never longer than the given limits. Single-threaded programs only.
#include <span>
#include <string_view>

namespace tranche::drain {

// A text that is assembled on the stack; if it does not fit, it becomes unusable.
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

void say(int fd, const Text& line);  // adds the line end; output that cannot be written is lost

// The beginning, as much as fits, of a regular file that root owns and no other user may write; "" if there is none.
std::string_view read_short(const char* path, std::span<char> into);
// Whether a file can be trusted: root owns it and its folder, and no other user may write them. True if there is no
// file.
bool is_roots_alone(const char* path);

// Sends one line to the node's log as a warning: the datagram socket of syslog and journald. Lost if it cannot be sent
// immediately.
void log_line(const char* socket_path, const Text& line);

// Requests a drain. Returns the received line ("" if none), and in that case the reason in `problem`. With a `signal`
// (the one that the container is about to get; 0: not given) the drain first reports that the clients are stopped:
// within `timeout_ms`. Its end must follow within `longest_ms`; with a `longest_ms` of 0 the call does not wait for the
// end.
struct Called {
  std::string_view line;
  const char* problem = nullptr;
  int error = 0;  // errno, with problem
};
Called ask_for_drain(std::string_view socket_path, int timeout_ms, std::span<char> into, int signal = 0,
                     int longest_ms = 0);

}  // namespace tranche::drain
