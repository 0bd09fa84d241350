#pragma once
// The size of the terminal. *Thread:* any.
#include <sys/ioctl.h>
#include <unistd.h>

#include <optional>

namespace tranche::os {

struct TerminalSize {
  int columns = 80;
  int lines = 24;
};

// Absent: standard output is not a terminal.
inline std::optional<TerminalSize> terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return std::nullopt;
  return size.ws_col == 0 || size.ws_row == 0 ? TerminalSize{} : TerminalSize{size.ws_col, size.ws_row};
}

}  // namespace tranche::os
