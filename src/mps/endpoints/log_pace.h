#pragma once
// Limits the rate of log lines about tenants, so that no tenant can fill the node's disk: the first event at once, then
// at most one line a minute for each grant and kind of event. A plain value.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"

namespace tranche::mps {

class LogPace {
 public:
  // The number of events since the last line; absent: no line now.
  std::optional<std::uint64_t> due(const std::string& grant, std::string_view kind, MonoTime now) {
    const auto [found, first] = last_lines_.try_emplace({grant, std::string(kind)});
    LogState& state = found->second;
    if (!first && now - state.at < std::chrono::minutes(1)) {
      ++state.since;
      return std::nullopt;
    }
    state.at = now;
    return std::exchange(state.since, 0);
  }
  void forget(const std::string& grant) {
    std::erase_if(last_lines_, [&](const auto& entry) { return entry.first.first == grant; });
  }

 private:
  struct LogState {
    MonoTime at{};
    std::uint64_t since = 0;  // events without a line
  };
  std::map<std::pair<std::string, std::string>, LogState> last_lines_;
};

}  // namespace tranche::mps
