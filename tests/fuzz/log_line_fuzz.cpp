// Any bytes in a line of our own log: one line, JSON that can be read, and no exception.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "os/log/render_event.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace log = tranche::log;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::initializer_list<log::Field> fields{{"why", text}, {"count", 3}};
  if (std::ranges::count(log::text_of("config.refused", fields), '\n') != 0) std::abort();
  const auto line = log::json_of({}, log::Level::kWarning, "config.refused", fields);
  const auto read = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (read.is_discarded() || std::ranges::count(line, '\n') != 0) std::abort();
  return 0;
}
