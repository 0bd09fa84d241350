#pragma once
// One line per event: a stable name, then fields. Text for people on a terminal, JSON lines otherwise or on request.
// Pure code never logs; it returns values that the caller may log. Log transitions, not ticks. Thread-safe. Writes to
// stderr; text from level info until configure() is called. Values are escaped and bounded here; keys and event names
// are ours.
//
// No call waits for the reader of stderr (a pipe, a socket or a terminal; a file never blocks): while the reader does
// not read, lines wait in a bounded queue, and are counted and dropped if the queue is full. The queue is written with
// the next line, by flush(), and at exit for at most one second.
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/enum_names.h"
#include "base/result.h"
#include "base/time.h"

namespace tranche::log {

enum class Format { kText, kJson };
enum class Level { kDebug, kInfo, kWarning, kError };

struct Field {
  Field(std::string_view k, std::string_view v) : key(k), value(v), is_text(true) {}
  Field(std::string_view k, const char* v) : Field(k, std::string_view(v)) {}
  Field(std::string_view k, const std::string& v) : Field(k, std::string_view(v)) {}
  Field(std::string_view k, const Error& e) : Field(k, to_string(e)) {}
  template <class T>
    requires std::is_integral_v<T>
  Field(std::string_view k, T v)
      : key(k),
        value(!std::is_same_v<T, bool> ? std::to_string(v)
              : v                      ? "true"
                                       : "false"),
        is_text(false) {}
  Field(std::string_view k, double v);
  std::string_view key;
  std::string value;
  bool is_text;  // otherwise a number, true or false
};

void configure(Format format, Level lowest);  // call before threads start

// Writes queued lines as far as the reader accepts them, and once all are written reports how many lines were dropped.
// A program with a loop calls it about every second; cheap if nothing is queued.
void flush();
std::uint64_t dropped_lines();  // since configure()

void debug(std::string_view event, std::initializer_list<Field> fields = {});
void info(std::string_view event, std::initializer_list<Field> fields = {});
void warning(std::string_view event, std::initializer_list<Field> fields = {});
void error(std::string_view event, std::initializer_list<Field> fields = {});

// An event and its fields as text. Values come from outside (driver, tenants): they become bounded, valid UTF-8 on one
// line, whatever they hold. Pure; for tests too.

// `mps.serving  gpu=GPU-… pid=12`; a value with blanks, quotes or control characters is quoted and escaped.
std::string text_of(std::string_view event, std::initializer_list<Field> fields);

// {"time":"2025-03-04T12:01:02.123Z","level":"info","event":"mps.serving","gpu":"GPU-…","pid":12}. A field named time,
// level or event gets a "_" appended, so that no value can pass as one of ours.
std::string json_of(WallTime time, Level level, std::string_view event, std::initializer_list<Field> fields);

ENUM_NAMES(Level::kError, "debug", "info", "warning", "error")

}  // namespace tranche::log
