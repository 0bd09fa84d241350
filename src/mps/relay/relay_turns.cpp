#include "mps/relay/relay_turns.h"

#include <algorithm>
#include <iterator>

namespace tranche::mps {

void RelayTurns::wait(std::uint64_t id, const std::string& grant) {
  turns_.push_back({id, grant});
}

std::optional<std::uint64_t> RelayTurns::next() {
  std::vector<Turn> with_daemon;
  std::ranges::copy_if(turns_, std::back_inserter(with_daemon), &Turn::with_daemon);
  if (connecting_ != 0 || with_daemon.size() >= kMostWithDaemon) return std::nullopt;
  Turn* best = nullptr;
  std::uint64_t* last = nullptr;
  for (auto& turn : turns_) {
    if (!turn.grant || std::ranges::find(with_daemon, turn.grant, &Turn::grant) != with_daemon.end()) continue;
    std::uint64_t& of_grant = last_turns_[*turn.grant];
    if (last != nullptr && *last <= of_grant) continue;
    best = &turn;
    last = &of_grant;
  }
  if (best == nullptr) return std::nullopt;
  best->kind = kind_of_(*best->grant);
  if (std::ranges::any_of(with_daemon, [&](const Turn& each) { return each.kind != best->kind; })) return std::nullopt;
  *last = ++last_turn_;
  best->with_daemon = true;
  return connecting_ = best->id;
}

void RelayTurns::connected(std::uint64_t id) {
  if (connecting_ == id) connecting_ = 0;
}

void RelayTurns::back(std::uint64_t id) {
  const auto turn = std::ranges::find(turns_, id, &Turn::id);
  if (turn == turns_.end()) return;
  turn->with_daemon = false;
  std::rotate(turns_.begin(), turn, turn + 1);
  connected(id);
}

void RelayTurns::leave(std::uint64_t id) {
  connected(id);
  std::erase_if(turns_, [id](const Turn& turn) { return turn.id == id; });
}

void RelayTurns::forget(const std::string& grant) {
  for (auto& turn : turns_)
    if (turn.grant == grant) turn.grant.reset();
  last_turns_.erase(grant);
}

}  // namespace tranche::mps
