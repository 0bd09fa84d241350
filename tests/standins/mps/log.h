#pragma once
// Log lines in MPS's form: "[2026-11-21 17:27:37.537 Control   502] text". One write per line, so that the daemon and
// its server may share a file. Single-threaded.
#include <string>
#include <string_view>

namespace tranche::sim {

class MpsLog {
 public:
  MpsLog(int fd, std::string role) : fd_(fd), role_(std::move(role)) {}
  void line(std::string_view text) const;
  void lines(std::string_view text) const;  // one log line per line of text
  void set_role(std::string role) { role_ = std::move(role); }

 private:
  int fd_;
  std::string role_;
};

}  // namespace tranche::sim
