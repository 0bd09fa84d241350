#include "base/json_list.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/json_deep.h"

namespace tranche {

nlohmann::json json_of_list(std::string_view text, std::string_view key,
                            const std::function<void(const nlohmann::json&)>& element) {
  using Event = nlohmann::json::parse_event_t;
  if (is_deep(text)) return nlohmann::json(nlohmann::json::value_t::discarded);
  std::string last_key;
  bool inside = false;
  const auto keep = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth == 1 && event == Event::key) last_key = parsed.get<std::string>();
    if (depth == 1 && event == Event::array_start) inside = last_key == key;
    if (depth == 1 && event == Event::array_end) inside = false;
    const bool complete = event == Event::object_end || event == Event::array_end || event == Event::value;
    if (!inside || depth != 2 || !complete) return true;
    element(parsed);
    return false;
  };
  return nlohmann::json::parse(text, keep, /*allow_exceptions=*/false);
}

}  // namespace tranche
