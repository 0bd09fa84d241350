#include "mps/relay/relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "mps/relay/client_table.h"
#include "mps/relay/relay_packet.h"
#include "mps/relay/relay_passage.h"
#include "mps/relay/relay_settling.h"
#include "mps/relay/relay_turns.h"
#include "os/loop/timer.h"

namespace tranche::host {
namespace {

constexpr int kAcceptedPerTurn = 16;
constexpr int kLateInARow = 2;
constexpr Duration kPauseWhenFull = std::chrono::seconds(1);
constexpr Duration kTryAgain = std::chrono::seconds(1);  // when the daemon is gone or busy although the pool serves

const std::string kOurselves;  // in place of a grant's name

bool may_pass(Kind kind) {
  return kind == Kind::kConflict || kind == Kind::kTimeout || kind == Kind::kUnavailable;
}

struct Endpoint {
  explicit Endpoint(Loop& loop) : pause(loop) {}
  Fd listening;
  Loop::Id watch = 0;
  Timer pause;
  bool waits = false;
  std::size_t connections = 0;
  std::size_t handshakes = 0;
  EndpointCounters counters;
};

class SocketRelay final : public Relay {
 public:
  SocketRelay(Loop& loop, RelaySettings settings, Callbacks callbacks)
      : loop_(loop),
        settings_(std::move(settings)),
        callbacks_(std::move(callbacks)),
        clients_(loop,
                 [this](const std::string& grant, int pid) {
                   callbacks_.on_gone(grant, pid);
                   callbacks_.on_change();
                 }),
        settling_(loop, [this](std::uint64_t id) { settled(id); }) {
    passing_.wants_turn = [this](RelayPassage& p) { wants_turn(p); };
    passing_.introduced = [this](RelayPassage& p, const Status& as_itself) { introduced(p, as_itself); };
    passing_.let_in = [this](RelayPassage& p) { let_in(p); };
    passing_.answer = [this](const RelayPassage& p) {
      return callbacks_.answer ? callbacks_.answer(p.grant(), p.state().question) : std::string();
    };
    passing_.ended = [this](RelayPassage& p) { ended(p); };
  }
  ~SocketRelay() override;
  SocketRelay(const SocketRelay&) = delete;
  SocketRelay& operator=(const SocketRelay&) = delete;

  Status open_endpoint(const std::string& grant, const Dir& endpoint) override;
  void set_kind(const std::string& grant, const std::string& kind) override { turns_.set_kind(grant, kind); }
  void close_endpoint(const std::string& grant) override;
  void keep_waiting(const std::string& grant, bool waits) override;
  void disown(const std::string& grant) override {
    clients_.disown(grant);
    callbacks_.on_change();
  }
  void server_took(int pid) override { settling_.server_took(pid); }
  void serve() override;
  void hold() override;
  std::uint64_t take_turn(std::function<void()> on_turn) override;
  void end_turn(std::uint64_t turn) override;
  void new_server() override {
    stuck_ = false;
    late_ = 0;
  }
  void remember(const std::string& grant, int pid) override {
    if (clients_.remember(grant, pid)) callbacks_.on_change();
  }
  bool has_endpoint(const std::string& grant) const override { return endpoints_.contains(grant); }
  EndpointView endpoint(const std::string& grant) const override;
  std::vector<std::string> endpoints() const override;
  const std::string* grant_of(int pid) const override { return clients_.grant_of(pid); }
  std::size_t clients() const override { return clients_.size(); }

 private:
  void watch_endpoint(const std::string& grant);
  void accept_some(const std::string& grant);
  bool has_room(const Endpoint& endpoint) const;
  void make_room();
  void pump();
  void pump_at(std::optional<MonoTime> due);
  void prepare(std::uint64_t id, const std::string& grant);
  void prepared(std::uint64_t id, const Status& status);
  void own_turn(std::uint64_t id);
  void settled(std::uint64_t id);
  std::string socket_for(const std::string& grant) const;
  bool refuses(RelayPassage& passage);
  void wants_turn(RelayPassage& passage);
  void looked(std::uint64_t id, bool refused);
  void introduced(RelayPassage& passage, const Status& as_itself);
  void let_in(RelayPassage& passage);
  void ended(RelayPassage& passage);
  void count_end(Endpoint& endpoint, const RelayPassage& passage, const mps::Passage& state);

  Loop& loop_;
  RelaySettings settings_;
  Callbacks callbacks_;
  RelayPassage::Callbacks passing_;
  ClientTable clients_;
  mps::RelayTurns turns_;
  std::map<std::string, Endpoint> endpoints_;
  std::map<std::uint64_t, std::shared_ptr<RelayPassage>> passages_;
  std::map<std::uint64_t, std::function<void()>> own_turns_;
  RelaySettling settling_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // prepare() and look() may answer after our end
  std::uint64_t next_id_ = 1;
  std::size_t handshakes_ = 0;
  std::size_t connections_ = 0;
  bool serving_ = false;
  bool pumping_ = false;
  bool try_again_ = false;  // wait before the next attempt
  bool told_not_itself_ = false;
  bool stuck_ = false;  // a client stalled, and none was admitted since
  int late_ = 0;        // consecutive clients that got no server in time
  Timer wake_{loop_};
};

SocketRelay::~SocketRelay() {
  for (auto& [grant, endpoint] : endpoints_) loop_.cancel(endpoint.watch);
  for (auto& [id, passage] : passages_) passage->drop();
}

Status SocketRelay::open_endpoint(const std::string& grant, const Dir& directory) {
  if (has_endpoint(grant)) return {};
  TRY(Fd listening, listen_in(directory, "control", Protocol::kPackets));
  Endpoint& endpoint = endpoints_.try_emplace(grant, loop_).first->second;
  endpoint.listening = std::move(listening);
  watch_endpoint(grant);
  if (endpoint.watch == 0) {
    endpoints_.erase(grant);
    return fail(Kind::kUnavailable, "the event loop refuses to watch an endpoint", directory.path());
  }
  callbacks_.on_change();
  return {};
}

void SocketRelay::close_endpoint(const std::string& grant) {
  const auto found = endpoints_.find(grant);
  if (found == endpoints_.end()) return;
  loop_.cancel(found->second.watch);
  for (auto it = passages_.begin(); it != passages_.end();) {
    const auto passage = it->second;
    if (passage->grant() != grant) {
      ++it;
      continue;
    }
    if (mps::is_handshake(passage->state())) --handshakes_;
    --connections_;
    if (!passage->was_let_in()) turns_.leave(passage->id(), false, loop_.now());
    settling_.left(passage->id());
    it = passages_.erase(it);
    passage->drop();
  }
  turns_.forget(grant);
  endpoints_.erase(found);
  callbacks_.on_change();
  make_room();
  pump();
}

void SocketRelay::keep_waiting(const std::string& grant, bool waits) {
  const auto found = endpoints_.find(grant);
  if (found == endpoints_.end()) return;
  found->second.waits = waits;
  if (waits) loop_.cancel(std::exchange(found->second.watch, 0));
  make_room();
}

void SocketRelay::watch_endpoint(const std::string& grant) {
  Endpoint& endpoint = endpoints_.at(grant);
  if (endpoint.watch != 0 || endpoint.pause.running()) return;
  endpoint.watch = loop_.watch(endpoint.listening.get(), EPOLLIN, [this, grant](std::uint32_t) { accept_some(grant); });
}

bool SocketRelay::has_room(const Endpoint& endpoint) const {
  return !endpoint.waits && endpoint.handshakes < settings_.handshakes_per_grant &&
         (endpoint.handshakes == 0 || handshakes_ < settings_.handshakes) &&
         endpoint.connections < settings_.connections_per_grant &&
         (endpoint.connections < settings_.connections_always || connections_ < settings_.connections);
}

// A new client that does not fit is not accepted yet, instead of being disconnected: a CUDA process that gets no
// greeting would run without MPS.
void SocketRelay::accept_some(const std::string& grant) {
  for (int i = 0; i < kAcceptedPerTurn; ++i) {
    const auto found = endpoints_.find(grant);
    if (found == endpoints_.end()) return;  // a callback closed it
    Endpoint& endpoint = found->second;
    if (!has_room(endpoint)) return loop_.cancel(std::exchange(endpoint.watch, 0));
    Fd fd(::accept4(endpoint.listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd && errno == EAGAIN) return;
    if (!fd) {  // out of descriptors or memory: the socket stays readable, so pause the watch
      loop_.cancel(std::exchange(endpoint.watch, 0));
      endpoint.pause.start(kPauseWhenFull, [this, grant] { watch_endpoint(grant); });
      return;
    }
    const auto id = next_id_++;
    const auto passage = std::make_shared<RelayPassage>(loop_, id, grant, std::move(fd), settings_.times, passing_);
    passages_.emplace(id, passage);
    ++endpoint.connections;
    ++connections_;
    ++endpoint.handshakes;
    ++handshakes_;
    passage->begin();
  }
}

void SocketRelay::make_room() {
  for (auto& [grant, endpoint] : endpoints_) {
    if (endpoint.watch == 0 && has_room(endpoint)) watch_endpoint(grant);
  }
}

void SocketRelay::serve() {
  serving_ = true;
  pump();
}

void SocketRelay::hold() {
  serving_ = false;
  wake_.stop();
}

void SocketRelay::pump() {
  if (!serving_ || std::exchange(pumping_, true)) return;
  try_again_ = false;
  while (const auto id = try_again_ ? std::nullopt : turns_.next(loop_.now())) {
    if (own_turns_.contains(*id)) {
      prepare(*id, kOurselves);
    } else if (const auto passage = passages_.at(*id); !refuses(*passage)) {
      prepare(*id, passage->grant());
    }
  }
  pumping_ = false;
  pump_at(try_again_ ? loop_.now() + kTryAgain : turns_.wake_at(loop_.now()));
}

void SocketRelay::pump_at(std::optional<MonoTime> due) {
  wake_.stop();
  if (!due) return;
  wake_.start(*due - loop_.now(), [this] { pump(); });
}

void SocketRelay::prepare(std::uint64_t id, const std::string& grant) {
  if (!callbacks_.prepare) return prepared(id, {});
  callbacks_.prepare(grant, [this, id, alive = std::weak_ptr(alive_)](const Status& status) {
    if (!alive.expired()) prepared(id, status);
  });
}

void SocketRelay::prepared(std::uint64_t id, const Status& status) {
  if (own_turns_.contains(id)) return own_turn(id);
  const auto found = passages_.find(id);
  if (found == passages_.end()) return;  // it hung up meanwhile, which ended its turn
  const auto passage = found->second;
  if (!status && !may_pass(status.error().kind)) return passage->no_limits();
  // The daemon is gone, or another connection holds it. The pool finds out on its own; until then clients are neither
  // admitted nor disconnected.
  if (status && serving_ && passage->connect(socket_for(passage->grant()))) return;
  turns_.back(id);
  if (pumping_) {
    try_again_ = true;
  } else if (serving_) {
    pump_at(loop_.now() + kTryAgain);
  }
}

std::string SocketRelay::socket_for(const std::string& grant) const {
  return callbacks_.socket ? callbacks_.socket(grant) : settings_.daemon_socket;
}

bool SocketRelay::refuses(RelayPassage& passage) {
  const int pid = passage.state().client.pid;
  if (!passage.connector_lives()) {
    passage.abandoned();
    return true;
  }
  if (callbacks_.refuse(passage.grant(), pid).empty()) return false;
  passage.refuse();
  return true;
}

void SocketRelay::wants_turn(RelayPassage& passage) {
  if (refuses(passage)) return;
  if (!callbacks_.look) return looked(passage.id(), false);
  callbacks_.look(passage.grant(), passage.state().client.pid,
                  [this, id = passage.id(), alive = std::weak_ptr(alive_)](const std::string& why_not) {
                    if (!alive.expired()) looked(id, !why_not.empty());
                  });
}

void SocketRelay::looked(std::uint64_t id, bool refused) {
  const auto found = passages_.find(id);
  if (found == passages_.end()) return;  // it hung up meanwhile
  const auto passage = found->second;
  if (refused) return passage->refuse();
  turns_.wait(id, passage->grant());
  pump();
}

// From here on the daemon knows the client, so a list of the grant's clients must include it.
void SocketRelay::introduced(RelayPassage& passage, const Status& as_itself) {
  turns_.connected(passage.id());
  settling_.introduced(passage.id(), passage.state().client.pid);
  if (!as_itself && !std::exchange(told_not_itself_, true)) callbacks_.on_not_itself(as_itself.error());
  if (as_itself) told_not_itself_ = false;
  if (clients_.remember(passage.grant(), passage.state().client.pid, passage.take_connector())) {
    callbacks_.on_client(passage.grant(), passage.state().client.pid);
    callbacks_.on_change();
  }
  pump();
}

void SocketRelay::let_in(RelayPassage& passage) {
  Endpoint& endpoint = endpoints_.at(passage.grant());
  ++endpoint.counters.let_in;
  stuck_ = false;
  late_ = 0;
  --endpoint.handshakes;
  --handshakes_;
  turns_.went_well(passage.grant());
  // If all grants have the same limits, there is nothing to settle.
  if (!callbacks_.prepare || settling_.let_in(passage.id(), settings_.times.settled)) {
    turns_.leave(passage.id(), false, loop_.now());
  } else {
    turns_.settle(passage.id());
  }
  make_room();
  pump();
}

std::uint64_t SocketRelay::take_turn(std::function<void()> on_turn) {
  const auto id = next_id_++;
  own_turns_[id] = std::move(on_turn);
  turns_.wait(id, kOurselves);
  pump();
  return id;
}

void SocketRelay::end_turn(std::uint64_t turn) {
  own_turns_.erase(turn);
  turns_.leave(turn, false, loop_.now());
  pump();
}

void SocketRelay::own_turn(std::uint64_t id) {
  turns_.connected(id);
  const auto on_turn = std::exchange(own_turns_.at(id), [] {});
  on_turn();
  pump();
}

void SocketRelay::settled(std::uint64_t id) {
  turns_.leave(id, false, loop_.now());
  pump();
}

void SocketRelay::ended(RelayPassage& passage) {
  const auto self = passage.shared_from_this();
  passages_.erase(passage.id());
  --connections_;
  settling_.left(passage.id());
  auto state = passage.state();
  if (state.end == mps::RelayEnd::kStalled && std::exchange(stuck_, true)) state.end = mps::RelayEnd::kServerLate;
  const auto found = endpoints_.find(passage.grant());
  if (found == endpoints_.end()) return;
  --found->second.connections;
  if (!passage.was_let_in()) {
    --found->second.handshakes;
    --handshakes_;
    turns_.leave(passage.id(), state.end == mps::RelayEnd::kStalled, loop_.now());
  }
  count_end(found->second, passage, state);
  make_room();
  pump();
}

void SocketRelay::count_end(Endpoint& endpoint, const RelayPassage& passage, const mps::Passage& state) {
  using enum mps::RelayEnd;
  if (state.end == kLooked || state.end == kLeft || state.end == kDone || state.end == kAsked) return;
  if (mps::is_attempt(state.end)) {
    ++endpoint.counters.attempts;
  } else if (state.end == kRefused || state.end == kAbandoned) {
    ++endpoint.counters.refused;
  } else if (state.end == mps::RelayEnd::kStalled) {
    ++endpoint.counters.stalled;
  } else {
    ++endpoint.counters.failed;
  }
  callbacks_.on_trouble(passage.grant(), state, passage.user());
  if (state.end == kServerLate) ++late_;
  const bool doubted = state.end == kStalled || (state.end == kServerLate && late_ >= kLateInARow);
  if (doubted && callbacks_.on_server_doubted)
    callbacks_.on_server_doubted("a client of grant " + passage.grant() + " " + std::string(to_string(state.end)));
  callbacks_.on_change();
}

EndpointView SocketRelay::endpoint(const std::string& grant) const {
  const auto found = endpoints_.find(grant);
  return {clients_.of(grant), found == endpoints_.end() ? EndpointCounters{} : found->second.counters};
}

std::vector<std::string> SocketRelay::endpoints() const {
  std::vector<std::string> grants;
  for (const auto& [grant, endpoint] : endpoints_) grants.push_back(grant);
  return grants;
}

}  // namespace

std::unique_ptr<Relay> Relay::open(Loop& loop, RelaySettings settings, Callbacks callbacks) {
  return std::make_unique<SocketRelay>(loop, std::move(settings), std::move(callbacks));
}

}  // namespace tranche::host
