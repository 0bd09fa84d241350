#pragma once
// Logs misuse of endpoints by tenants, rate-limited so that no tenant can fill the node's disk. Loop thread only.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "mps/relay/handshake.h"

namespace tranche::agent {

// The first event at once, then at most one line a minute for each grant and kind of event.
class LogPace {
 public:
  // The number of events since the last line; absent: no line now.
  std::optional<std::uint64_t> due(const std::string& grant, std::string_view kind, MonoTime now);
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

class EndpointLog {
 public:
  void trouble(const std::string& pool, const std::string& grant, const mps::Passage& passage, std::uint32_t user,
               const std::string& why, MonoTime now);  // `why`: the reason of a refusal
  void forget(const std::string& grant) { pace_.forget(grant); }

 private:
  LogPace pace_;
};

}  // namespace tranche::agent
