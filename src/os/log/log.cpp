#include "os/log/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "os/clock/clock.h"
#include "os/loop/fd.h"

namespace tranche::log {
namespace {

constexpr std::size_t kLongestValue = 4099;  // with "…"

// As JSON has it; as `json` false a text is in quotes only if it is not one word, which JSON would escape or has a "=".
std::string shown(const Field& field, bool json) {
  if (!field.is_text) return field.value;
  std::string text = cut_text(field.value, kLongestValue);
  std::string quoted = json_text(nlohmann::json(text));
  const bool valid = quoted.size() == text.size() + 2 && quoted.find("\xef\xbf\xbd") == std::string::npos;
  const bool plain = valid && !text.empty() && text.find_first_of(" =\x7f") == std::string_view::npos;
  return plain && !json ? text : quoted;
}

constexpr std::size_t kMost = 256 << 10;  // limit of queued bytes; lines beyond it are dropped
constexpr Duration kPatienceAtExit = std::chrono::seconds(1);

bool shows_colours() {  // standard output is for a command's data
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

// Writes whole lines to standard error, whose reader may not read, and which may later be another file (dup2). No call
// waits, and the file description, which other processes share, keeps its flags: a pipe and a terminal are opened once
// more for this process, a socket is written with a non-blocking send, and everything else (files, /dev/null) never
// waits for a reader.
class Output {
 public:
  explicit Output(Format form = Format::kText, Level least = Level::kInfo) : format(form), lowest(least) {}
  ~Output() { drain(); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  const Format format;
  const Level lowest;
  const bool colours = shows_colours();
  std::mutex mutex;  // of what follows

  void write(std::string_view line) {
    flush();
    if (waiting_.size() + line.size() > kMost) {
      ++dropped_;
      return;
    }
    waiting_ += line;
    flush();
  }

  void flush() {
    while (!waiting_.empty()) {
      const ssize_t sent = put(waiting_);
      if (sent <= 0) return;
      waiting_.erase(0, static_cast<std::size_t>(sent));
    }
  }

  // waits for the reader, for at most kPatienceAtExit
  void drain() {
    const MonoTime end = os::mono_now() + kPatienceAtExit;
    for (flush(); !waiting_.empty(); flush()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - os::mono_now()).count();
      if (left <= 0) return;
      pollfd writable{.fd = own_ ? own_.get() : STDERR_FILENO, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, static_cast<int>(left));
      if ((writable.revents & POLLOUT) == 0) return;
    }
  }

  std::uint64_t dropped() const { return dropped_; }  // lines
  // Of them those that were not reported yet, once nothing waits.
  std::uint64_t newly_dropped() { return waiting_.empty() ? dropped_ - std::exchange(reported_, dropped_) : 0; }

 private:
  // Determines what kind of file the descriptor is now.
  void look() {
    struct stat status{};
    if (::fstat(STDERR_FILENO, &status) != 0) status = {};
    if (status.st_dev == device_ && status.st_ino == inode_) return;
    device_ = status.st_dev;
    inode_ = status.st_ino;
    is_socket_ = S_ISSOCK(status.st_mode);
    own_.reset();
    if (!S_ISFIFO(status.st_mode) && (!S_ISCHR(status.st_mode) || ::isatty(STDERR_FILENO) == 0)) return;
    own_ = os::Fd(::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  }

  // The number of bytes that the reader accepted; -1 if it accepts none now. If writing is impossible (closed, a full
  // disk), the bytes count as accepted: the log must not stop the program.
  ssize_t put(std::string_view text) {
    look();
    ssize_t sent = -1;
    if (is_socket_) {
      sent = ::send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    } else if (own_) {
      sent = ::write(own_.get(), text.data(), text.size());
    } else {
      // A pipe that cannot be opened again and polls as writable has space for PIPE_BUF bytes, unless a process that
      // shares it was faster.
      pollfd writable{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
      if (::poll(&writable, 1, 0) == 0) return -1;
      sent = ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    }
    if (sent >= 0) return sent;
    return errno == EAGAIN || errno == EINTR ? -1 : static_cast<ssize_t>(text.size());
  }

  os::Fd own_;  // of a pipe or a terminal
  bool is_socket_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::string waiting_;
  std::uint64_t dropped_ = 0;
  std::uint64_t reported_ = 0;
};

struct Look {
  std::string_view name, colour;
};
constexpr Look kLooks[] = {
    {"debug", "\033[36m"}, {"info", "\033[32m"}, {"warn", "\033[33m\033[1m"}, {"error", "\033[31m\033[1m"}};

// One for each process, like stderr itself, and never destroyed: a thread may log until the process has ended.
std::unique_ptr<Output>& output() {
  static auto& the = *new auto(std::make_unique<Output>());
  static const struct AtExit {
    ~AtExit() {
      const std::lock_guard lock(the->mutex);
      the->drain();
    }
  } drained;
  return the;
}

// "12:01:02.123 info  ", in local time.
std::string prefix(WallTime time, const Look& look, bool colours) {
  const auto millis = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<time_t>(millis / 1000);
  tm parts{};
  localtime_r(&seconds, &parts);
  return fmt::format("{:02}:{:02}:{:02}.{:03} {}{:<5}{} ", parts.tm_hour, parts.tm_min, parts.tm_sec, millis % 1000,
                     colours ? look.colour : "", look.name, colours ? "\033[m" : "");
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  Output& out = *output();
  if (level < out.lowest) return;
  const WallTime now = os::wall_now();
  const std::string line =
      out.format == Format::kJson
          ? json_of(now, level, event, fields) + "\n"
          : prefix(now, kLooks[static_cast<std::size_t>(level)], out.colours) + text_of(event, fields) + "\n";
  const std::lock_guard lock(out.mutex);
  out.write(line);
}

}  // namespace

Field::Field(std::string_view k, double v) : key(k), value(fmt::format("{}", v)), is_text(false) {}

std::string text_of(std::string_view event, std::initializer_list<Field> fields) {
  std::string line(event);
  std::string_view gap = "  ";
  for (const auto& field : fields) {
    line += gap;
    line += field.key;
    line += '=';
    line += shown(field, false);
    gap = " ";
  }
  return line;
}

std::string json_of(WallTime time, Level level, std::string_view event, std::initializer_list<Field> fields) {
  std::string line =
      fmt::format(R"({{"time":"{}","level":"{}","event":"{}")", os::utc_text(time), to_string(level), event);
  for (const auto& field : fields) {
    const bool is_ours = field.key == "time" || field.key == "level" || field.key == "event";
    line += fmt::format(R"(,"{}{}":{})", field.key, is_ours ? "_" : "", shown(field, true));
  }
  return line + "}";
}

void configure(Format format, Level lowest) {
  output() = std::make_unique<Output>(format, lowest);
}

void flush() {
  std::uint64_t lines = 0;
  {
    Output& out = *output();
    const std::lock_guard lock(out.mutex);
    out.flush();
    lines = out.newly_dropped();
  }
  if (lines > 0) warning("log.lines_dropped", {{"lines", lines}, {"why", "the reader of standard error did not read"}});
}

std::uint64_t dropped_lines() {
  Output& out = *output();
  const std::lock_guard lock(out.mutex);
  return out.dropped();
}

void debug(std::string_view event, std::initializer_list<Field> fields) {
  write(Level::kDebug, event, fields);
}
void info(std::string_view event, std::initializer_list<Field> fields) {
  write(Level::kInfo, event, fields);
}
void warning(std::string_view event, std::initializer_list<Field> fields) {
  write(Level::kWarning, event, fields);
}
void error(std::string_view event, std::initializer_list<Field> fields) {
  write(Level::kError, event, fields);
}

}  // namespace tranche::log
