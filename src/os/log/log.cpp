// render.cpp decides the text of a line's event and fields, and output.cpp how a line is written.
#include "os/log/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>

#include "os/clock/clock.h"
#include "os/log/output.h"
#include "os/log/render_event.h"

namespace tranche::log {
namespace {

struct Look {
  std::string_view name, colour;
};
constexpr Look kLooks[] = {
    {"debug", "\033[36m"}, {"info", "\033[32m"}, {"warn", "\033[33m\033[1m"}, {"error", "\033[31m\033[1m"}};

bool shows_colours() {  // standard output is for a command's data
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

struct Output {
  Format format = Format::kText;
  Level lowest = Level::kInfo;
  bool colours = shows_colours();
  std::mutex mutex{};  // of what follows
  OutputQueue queue{STDERR_FILENO};
  std::uint64_t reported = 0;  // of the dropped lines
};

// One for each process, like stderr itself, and never destroyed: a thread may log until the process has ended.
std::unique_ptr<Output>& output() {
  static auto& the = *new auto(std::make_unique<Output>());
  static const struct AtExit {
    ~AtExit() {
      const std::lock_guard lock(the->mutex);
      the->queue.drain();
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
  const WallTime now = host::wall_now();
  const std::string line =
      out.format == Format::kJson
          ? json_of(now, level, event, fields) + "\n"
          : prefix(now, kLooks[static_cast<std::size_t>(level)], out.colours) + text_of(event, fields) + "\n";
  const std::lock_guard lock(out.mutex);
  out.queue.write(line);
}

}  // namespace

void configure(Format format, Level lowest) {
  auto next = std::make_unique<Output>();
  next->format = format;
  next->lowest = lowest;
  output() = std::move(next);
}

void flush() {
  std::uint64_t lines = 0;
  {
    Output& out = *output();
    const std::lock_guard lock(out.mutex);
    out.queue.flush();
    if (!out.queue.waiting()) lines = out.queue.dropped() - std::exchange(out.reported, out.queue.dropped());
  }
  if (lines > 0) warning("log.lines_dropped", {{"lines", lines}, {"why", "the reader of standard error did not read"}});
}

std::uint64_t dropped_lines() {
  Output& out = *output();
  const std::lock_guard lock(out.mutex);
  return out.queue.dropped();
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
