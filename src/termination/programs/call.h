#pragma once
// Input and output of tranche-drain, without the C++ library: a request to a drain socket, writing a line. Blocking,
// but never longer than the given limit. Single-threaded programs only.
#include <span>
#include <string_view>

namespace tranche::drain {

// A text that is assembled on the stack; what does not fit is cut off.
class Text {
 public:
  Text& operator<<(std::string_view piece);
  std::string_view view() const { return {bytes_, size_}; }

 private:
  char bytes_[4096] = {};
  std::size_t size_ = 0;
};

void say(int fd, const Text& line);  // adds the line end; output that cannot be written is lost

// Requests a drain. Returns the received line, or "" and the reason in `problem`.
struct Called {
  std::string_view line;
  const char* problem = nullptr;
  int error = 0;  // errno, with problem
};
Called ask_for_drain(std::string_view socket_path, int timeout_ms, std::span<char> into);

}  // namespace tranche::drain
