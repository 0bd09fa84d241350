// The only file that includes spdlog, which takes four seconds to compile. spdlog provides the pattern, its colours and
// the lock of a sink; render.cpp decides the text of a line, and output.cpp how it is written.
#include "os/log/log.h"

#include <unistd.h>

#include <memory>

#define SPDLOG_LEVEL_NAMES {"trace", "debug", "info", "warn", "error", "fatal", "off"}
#include <spdlog/details/os.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "os/clock/clock.h"
#include "os/log/output.h"
#include "os/log/render.h"

namespace tranche::log {
namespace {

constexpr std::string_view kNoColour = "\033[m";

std::string_view colour_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug:
      return "\033[36m";
    case spdlog::level::info:
      return "\033[32m";
    case spdlog::level::warn:
      return "\033[33m\033[1m";
    default:
      return "\033[31m\033[1m";
  }
}

// Colours only if stderr is a terminal. Standard output is for a command's data.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::uint64_t dropped() {
    const std::lock_guard lock(mutex_);
    return output_.dropped();
  }
  // The number of lines dropped since the last call, once all queued lines are written; 0 before.
  std::uint64_t take_dropped() {
    const std::lock_guard lock(mutex_);
    output_.flush();
    return output_.waiting() ? 0 : output_.dropped() - std::exchange(reported_, output_.dropped());
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    if (!colours_ || message.color_range_end <= message.color_range_start) return output_.write(text);
    std::string coloured(text.substr(0, message.color_range_start));
    coloured.append(colour_of(message.level));
    coloured.append(text.substr(message.color_range_start, message.color_range_end - message.color_range_start));
    coloured.append(kNoColour).append(text.substr(message.color_range_end));
    output_.write(coloured);
  }
  void flush_() override { output_.flush(); }

  OutputQueue output_{STDERR_FILENO};
  bool colours_ = spdlog::details::os::in_terminal(stderr) && spdlog::details::os::is_color_terminal();
  std::uint64_t reported_ = 0;
};

struct Output {
  std::shared_ptr<StderrSink> sink;
  std::shared_ptr<spdlog::logger> logger;
  Format format = Format::kText;
};

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

Output make_output(Format format, Level lowest) {
  Output output;
  output.format = format;
  output.sink = std::make_shared<StderrSink>();
  output.logger = std::make_shared<spdlog::logger>("tranche", output.sink);
  output.logger->set_pattern(format == Format::kJson ? "%v" : "%H:%M:%S.%e %^%-5l%$ %v");
  output.logger->set_level(level_of(lowest));
  // spdlog catches errors of its sinks; a log that cannot be written (full disk, closed pipe) must not stop the
  // program.
  output.logger->set_error_handler([](const std::string&) {});
  return output;
}

// One for each process, like stderr itself. Text from level info until configure() is called.
Output& output() {
  static Output the = make_output(Format::kText, Level::kInfo);
  return the;
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  const Output& out = output();
  const auto spd_level = level_of(level);
  if (!out.logger->should_log(spd_level)) return;
  const std::string line =
      out.format == Format::kJson ? json_of(host::wall_now(), level, event, fields) : text_of(event, fields);
  out.logger->log(spd_level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void configure(Format format, Level lowest) {
  output() = make_output(format, lowest);
}

void flush() {
  if (const auto lines = output().sink->take_dropped(); lines > 0)
    warning("log.lines_dropped", {{"lines", lines}, {"why", "the reader of standard error did not read"}});
}

std::uint64_t dropped_lines() {
  return output().sink->dropped();
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
