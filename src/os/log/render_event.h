#pragma once
// Private to os/log: an event and its fields as text. Values come from outside (driver, tenants): they become bounded,
// valid UTF-8 on one line, whatever they hold. Pure.
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/time.h"
#include "os/log/log.h"

namespace tranche::log {

// `mps.serving  gpu=GPU-… pid=12`; a value with blanks, quotes or control characters is quoted and escaped.
std::string text_of(std::string_view event, std::initializer_list<Field> fields);

// {"time":"2025-03-04T12:01:02.123Z","level":"info","event":"mps.serving","gpu":"GPU-…","pid":12}. A field named time,
// level or event gets a "_" appended, so that no value can pass as one of ours.
std::string json_of(WallTime time, Level level, std::string_view event, std::initializer_list<Field> fields);

std::string_view to_string(Level level);  // "debug", "info", "warning", "error"

}  // namespace tranche::log
