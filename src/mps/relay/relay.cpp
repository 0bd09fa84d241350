#include "mps/relay/relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "mps/relay/relay_packet.h"
#include "mps/relay/relay_passage.h"

namespace tranche::mps {
namespace {

constexpr int kAcceptedPerTurn = 16;
constexpr int kLateInARow = 2;
constexpr Duration kPauseWhenFull = std::chrono::seconds(1);
constexpr Duration kLookForPlace = std::chrono::milliseconds(10);
constexpr int kLooksForPlace = 10;
constexpr Duration kLastLook = std::chrono::seconds(3);
constexpr Duration kStoreSoon = std::chrono::milliseconds(200);  // removals; additions are stored at once
constexpr Duration kTryAgain = std::chrono::seconds(1);  // when the daemon is gone or busy although the pool serves

constexpr int kLastWait = 500;  // milliseconds that the end of the program waits for the server of a client

const std::string kOurselves;  // in place of a grant's name

bool may_pass(Kind kind) {
  return kind == Kind::kConflict || kind == Kind::kTimeout || kind == Kind::kUnavailable;
}

}  // namespace

Relay::Relay(os::Loop& loop, RelaySettings settings, RelayOwner& owner)
    : loop_(loop), settings_(std::move(settings)), owner_(owner), clients_(loop, [this](int pid) { gone(pid); }) {}

Relay::~Relay() {
  hold();
  for (const auto& [id, passage] : std::map(passages_)) {
    passage->wait_for_server(kLastWait);
    passage->drop();
  }
  for (auto& [grant, endpoint] : endpoints_) {
    loop_.cancel(endpoint.watch);
    endpoint.sockets.close_listening(std::move(endpoint.listening));
  }
}

Status Relay::open_endpoint(const std::string& grant, const os::Dir& directory) {
  if (endpoints_.contains(grant)) return {};
  TRY(os::Fd listening, listen_in(directory, "control"));
  Endpoint& endpoint = endpoints_.try_emplace(grant, loop_, [this] { resume_endpoints(); }).first->second;
  endpoint.listening = std::move(listening);
  watch_endpoint(grant);
  if (endpoint.watch == 0) {
    endpoints_.erase(grant);
    return fail(Kind::kUnavailable, "the event loop refuses to watch an endpoint", directory.path());
  }
  owner_.clients_changed();
  return {};
}

void Relay::close_endpoint(const std::string& grant) {
  const auto found = endpoints_.find(grant);
  if (found == endpoints_.end()) return;
  loop_.cancel(found->second.watch);
  for (const auto& [id, passage] : std::map(passages_)) {
    if (passage->grant() != grant) continue;
    if (passage->leave_to_server()) continue;
    passage->drop();
    forget(*passage);
  }
  turns_.forget(grant);
  found->second.sockets.close_listening(std::move(found->second.listening));
  endpoints_.erase(found);
  owner_.clients_changed();
  resume_endpoints();
  pump();
}

void Relay::disown(const std::string& grant) {
  clients_.disown(grant);
  changed();
}

void Relay::watch_endpoint(const std::string& grant) {
  Endpoint& endpoint = endpoints_.at(grant);
  if (endpoint.watch != 0 || endpoint.pause.running()) return;
  endpoint.watch = loop_.watch(endpoint.listening.get(), EPOLLIN, [this, grant](std::uint32_t) { accept_some(grant); });
}

void Relay::pause_endpoint(const std::string& grant, Duration pause) {
  Endpoint& endpoint = endpoints_.at(grant);
  loop_.cancel(std::exchange(endpoint.watch, 0));
  endpoint.pause.start(pause, [this, grant] { watch_endpoint(grant); });
}

bool Relay::has_capacity(const Endpoint& endpoint) const {
  return endpoint.handshakes + endpoint.sockets.closing() < settings_.handshakes_per_grant &&
         (endpoint.handshakes == 0 || handshakes_ < settings_.handshakes) &&
         endpoint.connections < settings_.connections_per_grant &&
         (endpoint.connections < settings_.connections_always || passages_.size() < settings_.connections);
}

// A new client that does not fit is not accepted yet, instead of being disconnected: a CUDA process that gets no
// greeting would run without MPS.
void Relay::accept_some(const std::string& grant) {
  for (int i = 0; i < kAcceptedPerTurn; ++i) {
    auto* const found = find_in(endpoints_, grant);
    if (found == nullptr) return;  // a callback closed it
    Endpoint& endpoint = *found;
    if (!has_capacity(endpoint)) return loop_.cancel(std::exchange(endpoint.watch, 0));
    // A connection that hangs up at once costs a tenant nothing, and this program 50 µs.
    const auto every = settings_.connection_every;
    const auto due = std::max(endpoint.paced, loop_.now() - every * settings_.connections_burst) + every;
    if (due > loop_.now()) return pause_endpoint(grant, due - loop_.now());
    os::Fd fd(::accept4(endpoint.listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd && errno == EAGAIN) return;
    if (!fd) return pause_endpoint(grant, kPauseWhenFull);  // out of descriptors or memory: it stays readable
    endpoint.paced = due;
    const auto id = next_id_++;
    const auto passage = std::make_shared<RelayPassage>(*this, id, grant, std::move(fd));
    passages_.emplace(id, passage);
    ++endpoint.connections;
    ++endpoint.handshakes;
    ++handshakes_;
    passage->begin();
  }
}

void Relay::resume_endpoints() {
  for (auto& [grant, endpoint] : endpoints_) {
    if (endpoint.watch == 0 && has_capacity(endpoint)) watch_endpoint(grant);
  }
}

void Relay::serve() {
  serving_ = true;
  pump();
}

void Relay::pump() {
  if (!serving_ || std::exchange(pumping_, true)) return;
  wake_.stop();
  while (const auto id = wake_.running() || preparing_ ? std::nullopt : turns_.next()) {
    const auto passage = own_turns_.contains(*id) ? nullptr : passages_.at(*id);
    if (passage && keeps_out(*passage, kLooksForPlace)) continue;
    preparing_ = true;
    owner_.prepare(passage ? passage->grant() : kOurselves,
                   [this, id, alive = std::weak_ptr(alive_)](const Status& status) {
                     if (!alive.expired()) prepared(*id, status);
                   });
  }
  pumping_ = false;
}

void Relay::prepared(std::uint64_t id, const Status& status) {
  preparing_ = false;
  if (auto* const own = find_in(own_turns_, id)) return std::exchange(*own, {})();
  const auto* const found = find_in(passages_, id);
  if (found == nullptr) return pump();  // it hung up meanwhile, which ended its turn
  const auto passage = *found;
  if (!status && !may_pass(status.error().kind)) return passage->end(RelayEnd::kNoLimits);
  // The daemon is gone, or another connection holds it. The pool finds out on its own; until then clients are neither
  // admitted nor disconnected.
  if (status && serving_ && passage->connect(settings_.daemon_socket)) return;
  turns_.back(id);
  wake_.start(kTryAgain, [this] { pump(); });
}

// A client that has just destroyed a context, or ended, may have a place until its server has closed the connection. A
// client that would be refused meanwhile waits for that, and the servers' pipes are looked at once for all that wait.
bool Relay::keeps_out(RelayPassage& passage, int looks) {
  if (!passage.connector_lives()) {
    passage.end(RelayEnd::kAbandoned);
    return true;
  }
  const auto refusal = owner_.refuses(passage.grant(), passage.state().client.pid);
  if (refusal.why.empty()) return false;
  if (!refusal.may_pass || looks >= kLooksForPlace) {
    passage.end(RelayEnd::kRefused, refusal.why);
    return true;
  }
  without_place_.emplace(passage.id(), looks + 1);
  if (place_look_.running()) return true;
  place_look_.start(kLookForPlace, [this] {
    look();
    for (const auto& [id, count] : std::exchange(without_place_, {})) {
      if (const auto* const found = find_in(passages_, id)) wants_turn(*std::shared_ptr(*found), count);
    }
  });
  return true;
}

void Relay::wants_turn(RelayPassage& passage, int looks) {
  if (keeps_out(passage, looks)) return;
  owner_.look_at(passage.grant(), passage.state().client.pid,
                 [this, id = passage.id(), alive = std::weak_ptr(alive_)](const std::string& why_not) {
                   if (alive.expired()) return;
                   const auto* const found = find_in(passages_, id);
                   if (found == nullptr) return;  // it hung up meanwhile
                   const auto looked_at = *found;
                   if (!why_not.empty()) return looked_at->end(RelayEnd::kRefused, why_not);
                   turns_.wait(id, looked_at->grant());
                   pump();
                 });
}

// From here on the daemon knows the client, so a list of the grant's clients must include it.
void Relay::introduced(RelayPassage& passage, const Status& as_itself) {
  if (!as_itself && !std::exchange(logged_not_itself_, true)) owner_.not_as_client(as_itself.error());
  if (as_itself) logged_not_itself_ = false;
  if (clients_.remember(passage.grant(), passage.state().client.pid, passage.take_connector())) {
    owner_.client_connects(passage.grant(), passage.state().client.pid);
    owner_.clients_changed();
  }
}

void Relay::let_in(RelayPassage& passage) {
  Endpoint& endpoint = endpoints_.at(passage.grant());
  ++endpoint.counters.let_in;
  late_ = 0;
  --endpoint.handshakes;
  --handshakes_;
  turns_.leave(passage.id());
  resume_endpoints();
  pump();
}

void Relay::connects(const RelayPassage& passage) {
  clients_.connected(passage.state().client.pid, passage.id(), passage.state().exchange.context);
  store();
}

// After the endpoint has closed, the only socket left is our end of an exchange that the client never received.
void Relay::close(const std::string& grant, os::Fd fd) {
  if (auto* const endpoint = find_in(endpoints_, grant)) endpoint->sockets.close(std::move(fd));
}

void Relay::left(RelayPassage& passage, int pid) {
  clients_.notice(passage.state().client.pid);
  clients_.inherit(passage.state().client.pid, pid, passage.id(), passage.grant());
  owner_.clients_changed();
  look_soon();
  store();
}

void Relay::gone(int pid) {
  owner_.client_exited(pid);
  changed();
  if (clients_.contexts(pid) == 0) look();
  look_soon();
}

void Relay::context_ended(int pid, std::uint32_t context) {
  clients_.notice(pid);  // with the contexts that it had, also if the log is read before its exit is seen
  if (clients_.context_ended(pid, context)) owner_.clients_changed();
  store_soon();
  if (clients_.remnant(pid) && clients_.contexts(pid) == 0) look();
  look_soon();
}

void Relay::listed(std::uint64_t asked, const std::vector<int>& pids) {
  const bool open_known = clients_.waits_for_server() && look();
  if (clients_.listed(asked, pids, open_known)) changed();
}

void Relay::tried(int remnant) {
  clients_.tried(remnant);
  store_soon();
}

void Relay::restore(const std::string& clients, const std::vector<std::string>& grants) {
  auto stored = parse_clients(clients);
  if (stored.boot.empty() || stored.boot != boot_) return;
  for (auto& client : stored.clients) {
    if (std::ranges::find(grants, client.grant) == grants.end()) client.grant.clear();
    clients_.restore(client);
  }
}

void Relay::changed() {
  owner_.clients_changed();
  store_soon();
}

void Relay::store() {
  store_.stop();
  auto text = render_clients({boot_, clients_.stored()});
  if (text == stored_) return;
  stored_ = std::move(text);
  owner_.store_clients(stored_);
}

void Relay::store_soon() {
  if (!store_.running()) store_.start(kStoreSoon, [this] { store(); });
}

// Which connections the servers still have. false: not known.
bool Relay::look() {
  const auto open = owner_.open_pipes();
  if (clients_.looked(open)) changed();
  return open.has_value();
}

// A server closes a client's channels a moment after the client's end, or that of a context. One that does not is
// looked at again with the server's next list.
void Relay::look_soon(Duration wait) {
  if (wait > kLastLook || look_.running() || !clients_.waits_for_server()) return;
  look_.start(wait, [this, wait] {
    if (look()) look_soon(wait * 4);
  });
}

std::shared_ptr<void> Relay::take_turn(std::function<void()> on_turn) {
  const auto id = next_id_++;
  own_turns_[id] = std::move(on_turn);
  turns_.wait(id, kOurselves);
  pump();
  return {this, [this, id, alive = std::weak_ptr(alive_)](void*) {
            if (alive.expired()) return;
            own_turns_.erase(id);
            turns_.leave(id);
            pump();
          }};
}

// All its sides are closed.
void Relay::forget(const RelayPassage& passage) {
  if (!passage.was_let_in()) {
    --handshakes_;
    turns_.leave(passage.id());
  }
  passages_.erase(passage.id());
}

void Relay::ended(RelayPassage& passage) {
  const auto self = passage.shared_from_this();
  const auto state = passage.state();
  forget(passage);
  if (auto* const endpoint = find_in(endpoints_, passage.grant())) {
    --endpoint->connections;
    if (!passage.was_let_in()) --endpoint->handshakes;
    if (state.exchange.from_relay > 0) ++endpoint->counters.completed;
    count_end(*endpoint, passage, state);
  }
  resume_endpoints();
  pump();
}

void Relay::count_end(Endpoint& endpoint, const RelayPassage& passage, const Passage& state) {
  using enum RelayEnd;
  if (state.end == kLeft) return;
  if (is_attempt(state.end)) {
    ++endpoint.counters.attempts;
  } else if (state.end == kRefused || state.end == kAbandoned) {
    ++endpoint.counters.refused;
  } else {
    ++endpoint.counters.failed;
  }
  owner_.ended_badly(passage.grant(), state);
  if (state.end == kServerLate) ++late_;
  const bool may_be_stuck = state.end == kBrokeOff || (state.garbled && state.exchange.foreign);
  if (may_be_stuck || (state.end == kServerLate && late_ >= kLateInARow)) owner_.server_doubted();
  owner_.clients_changed();
}

EndpointCounters Relay::counters(const std::string& grant) const {
  const auto* const endpoint = find_in(endpoints_, grant);
  return endpoint == nullptr ? EndpointCounters{} : endpoint->counters;
}

// --- whose turn it is ------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> RelayTurns::next() {
  if (with_daemon_ != 0 || turns_.empty()) return std::nullopt;
  const auto next = std::ranges::min_element(turns_, {}, [this](const Turn& turn) { return last_turns_[turn.grant]; });
  last_turns_[next->grant] = ++last_turn_;
  return with_daemon_ = next->id;
}

void RelayTurns::back(std::uint64_t id) {
  const auto turn = std::ranges::find(turns_, id, &Turn::id);
  if (turn == turns_.end()) return;
  std::rotate(turns_.begin(), turn, turn + 1);
  with_daemon_ = 0;
}

void RelayTurns::leave(std::uint64_t id) {
  if (with_daemon_ == id) with_daemon_ = 0;
  std::erase_if(turns_, [id](const Turn& turn) { return turn.id == id; });
}

}  // namespace tranche::mps
