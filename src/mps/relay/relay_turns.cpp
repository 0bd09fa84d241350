#include "mps/relay/relay_turns.h"

#include <algorithm>
#include <utility>

namespace tranche::mps {

void RelayTurns::wait(std::uint64_t id, const std::string& grant) {
  waiting_.push_back({id, grant});
  standing_.try_emplace(grant);
}

void RelayTurns::set_kind(const std::string& grant, const std::string& kind) {
  standing_[grant].kind = kind;
}

std::optional<std::uint64_t> RelayTurns::next() {
  if (connecting_ != 0 || with_daemon_.size() >= kMostWithDaemon) return std::nullopt;
  auto best = waiting_.end();
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    const auto of = [&](const Turn& turn) -> const Standing& { return standing_.find(turn.grant)->second; };
    if (!of(*it).with_daemon && (best == waiting_.end() || of(*it).last_turn < of(*best).last_turn)) best = it;
  }
  if (best == waiting_.end()) return std::nullopt;
  const Turn turn = *best;
  auto& standing = standing_[turn.grant];
  const auto is_other = [&](const auto& entry) { return entry.second.kind != standing.kind; };
  if (std::ranges::any_of(with_daemon_, is_other)) return std::nullopt;
  waiting_.erase(best);
  standing.with_daemon = true;
  standing.last_turn = ++turns_;
  with_daemon_[turn.id] = {turn.grant, standing.kind};
  connecting_ = turn.id;
  return turn.id;
}

void RelayTurns::connected(std::uint64_t id) {
  if (connecting_ == id) connecting_ = 0;
}

void RelayTurns::back(std::uint64_t id) {
  const auto found = with_daemon_.find(id);
  if (found == with_daemon_.end()) return;
  standing_[found->second.grant].with_daemon = false;
  waiting_.insert(waiting_.begin(), {id, found->second.grant});
  with_daemon_.erase(found);
  connected(id);
}

void RelayTurns::leave(std::uint64_t id) {
  connected(id);
  if (const auto found = with_daemon_.find(id); found != with_daemon_.end()) {
    const auto standing = standing_.find(found->second.grant);
    if (standing != standing_.end()) standing->second.with_daemon = false;
    with_daemon_.erase(found);
  } else {
    std::erase_if(waiting_, [id](const Turn& turn) { return turn.id == id; });
  }
}

void RelayTurns::forget(const std::string& grant) {
  standing_.erase(grant);
}

}  // namespace tranche::mps
