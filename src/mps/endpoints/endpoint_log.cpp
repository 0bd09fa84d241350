#include "mps/endpoints/endpoint_log.h"

#include "os/log/log.h"

namespace tranche::agent {
namespace {

constexpr Duration kEvery = std::chrono::minutes(1);

}  // namespace

std::optional<std::uint64_t> LogPace::due(const std::string& grant, std::string_view kind, MonoTime now) {
  const auto [found, first] = last_lines_.try_emplace({grant, std::string(kind)});
  LogState& state = found->second;
  if (!first && now - state.at < kEvery) {
    ++state.since;
    return std::nullopt;
  }
  state.at = now;
  return std::exchange(state.since, 0);
}

void EndpointLog::trouble(const std::string& pool, const std::string& grant, const mps::Passage& passage,
                          std::uint32_t user, const std::string& why, MonoTime now) {
  const auto suppressed = pace_.due(grant, mps::to_string(passage.end), now);
  if (!suppressed) return;
  using enum mps::RelayEnd;
  const bool refused = passage.end == kRefused || passage.end == kAbandoned;
  const char* event = mps::is_attempt(passage.end) ? "endpoint.attempt"
                      : refused                    ? "endpoint.refused"
                                                   : "endpoint.failed";
  log::warning(event, {{"pool", pool},
                       {"grant", grant},
                       {"pid", passage.client.pid != 0 ? passage.client.pid : passage.connected_by},
                       {"uid", user},
                       {"what", mps::to_string(passage.end)},
                       {"why", why},
                       {"suppressed", *suppressed}});
}

}  // namespace tranche::agent
