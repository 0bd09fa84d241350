// The only file that includes spdlog: it costs four seconds to compile. spdlog brings the sink, its colours and its
// lock; what a line says is decided in render.cpp.
#include "host/log/log.h"

#include <memory>

#define SPDLOG_LEVEL_NAMES {"trace", "debug", "info", "warn", "error", "fatal", "off"}
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include "host/clock/clock.h"
#include "host/log/render.h"

namespace tranche::log {
namespace {

struct Output {
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
  // Colours only when stderr is a terminal. Standard output is for the data that a command prints.
  output.logger =
      std::make_shared<spdlog::logger>("tranche", std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>());
  output.logger->set_pattern(format == Format::kJson ? "%v" : "%H:%M:%S.%e %^%-5l%$ %v");
  output.logger->set_level(level_of(lowest));
  output.logger->flush_on(spdlog::level::debug);
  // spdlog catches what goes wrong in its sinks; a log that cannot be written (full disk, closed pipe) must not stop
  // us.
  output.logger->set_error_handler([](const std::string&) {});
  return output;
}

// One per process, like stderr itself. Text from info upward until configure() says otherwise.
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
