#include "mps/endpoints/endpoint_log.h"

#include "os/log/log.h"

namespace tranche::agent {
namespace {

constexpr Duration kEvery = std::chrono::minutes(1);

}  // namespace

std::optional<std::uint64_t> LogPace::due(const std::string& grant, std::string_view kind, MonoTime now) {
  const auto [found, first] = told_.try_emplace({grant, std::string(kind)});
  Told& told = found->second;
  if (!first && now - told.at < kEvery) {
    ++told.since;
    return std::nullopt;
  }
  told.at = now;
  return std::exchange(told.since, 0);
}

void EndpointLog::trouble(const std::string& pool, const std::string& grant, const mps::Passage& passage,
                          std::uint32_t user, const std::string& why, MonoTime now) {
  const auto untold = pace_.due(grant, mps::to_string(passage.end), now);
  if (!untold) return;
  using enum mps::RelayEnd;
  const bool refused = passage.end == kRefused || passage.end == kAbandoned;
  const char* event = mps::is_attempt(passage.end) ? "endpoint.attempt"
                      : refused                    ? "endpoint.refused"
                      : passage.end == kStalled    ? "endpoint.stalled"
                                                   : "endpoint.failed";
  log::warning(event, {{"pool", pool},
                       {"grant", grant},
                       {"pid", passage.client.pid != 0 ? passage.client.pid : passage.connected_by},
                       {"uid", user},
                       {"what", mps::to_string(passage.end)},
                       {"why", why},
                       {"untold", *untold}});
}

}  // namespace tranche::agent
