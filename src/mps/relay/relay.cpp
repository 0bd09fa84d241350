#include "mps/relay/relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "mps/relay/client_file.h"
#include "mps/relay/client_table.h"
#include "mps/relay/exited_children.h"
#include "mps/relay/relay_packet.h"
#include "mps/relay/relay_passage.h"
#include "mps/relay/relay_turns.h"
#include "mps/relay/tenant_sockets.h"
#include "os/files/kept.h"
#include "os/loop/timer.h"

namespace tranche::host {
namespace {

constexpr int kAcceptedPerTurn = 16;
constexpr int kLateInARow = 2;
constexpr Duration kPauseWhenFull = std::chrono::seconds(1);
constexpr Duration kLookForPlace = std::chrono::milliseconds(10);
constexpr int kLooksForPlace = 10;
constexpr Duration kFirstLook = std::chrono::milliseconds(50);
constexpr Duration kLastLook = std::chrono::seconds(3);
constexpr Duration kStoreSoon = std::chrono::milliseconds(200);  // removals; additions are stored at once
constexpr Duration kTryAgain = std::chrono::seconds(1);  // when the daemon is gone or busy although the pool serves

// Milliseconds that the end of the program waits for the server of each introduced client; at most
// RelayTurns::kMostWithDaemon clients are introduced.
constexpr int kLastWait = 500;

const std::string kOurselves;  // in place of a grant's name

bool may_pass(Kind kind) {
  return kind == Kind::kConflict || kind == Kind::kTimeout || kind == Kind::kUnavailable;
}

// An endpoint of a grant, its listening socket and its counts.
struct RelayEndpoint {
  RelayEndpoint(Loop& loop, std::function<void()> on_closed) : sockets(loop, std::move(on_closed)), pause(loop) {}
  TenantSockets sockets;
  Fd listening;
  Loop::Id watch = 0;
  Timer pause;
  bool waits = false;
  std::size_t connections = 0;
  std::size_t handshakes = 0;
  MonoTime paced = MonoTime::min();  // when the last accepted connection was due
  EndpointCounters counters;
};

class SocketRelay final : public Relay {
 public:
  SocketRelay(Loop& loop, RelaySettings settings, Callbacks callbacks)
      : loop_(loop),
        settings_(std::move(settings)),
        callbacks_(std::move(callbacks)),
        clients_(loop, [this](const std::string& grant, int pid) {
          callbacks_.on_gone(grant, pid);
          callbacks_.on_change();
          if (clients_.contexts(pid) == 0) look();
          look_soon();
          store_soon();
        }) {
    passing_.wants_turn = [this](RelayPassage& p) { wants_turn(p); };
    passing_.introduced = [this](RelayPassage& p, const Status& as_itself) { introduced(p, as_itself); };
    passing_.gets = [this](RelayPassage& p, const Channel& channel) {
      clients_.gets(p.state().client.pid, p.id(), channel);
    };
    passing_.connects = [this](RelayPassage& p, int pid, std::uint32_t context) {
      clients_.connected(pid, p.id(), context);
      store();
    };
    passing_.exited_child = [this] { return exited_children_.take([this](int pid) { return clients_.knows(pid); }); };
    passing_.left = [this](RelayPassage& p, int pid) { left(p, pid); };
    passing_.others_wait = [this] { return turns_.others_wait(); };
    passing_.next_context = [this](int pid) { return clients_.next_context(pid); };
    passing_.let_in = [this](RelayPassage& p) { let_in(p); };
    passing_.answer = [this](const RelayPassage& p) {
      return callbacks_.answer ? callbacks_.answer(p.grant(), p.state().question) : std::string();
    };
    passing_.ended = [this](RelayPassage& p) { ended(p); };
    // After the endpoint has closed, the only socket left is our end of an exchange that the client never received.
    passing_.close = [this](const std::string& grant, Fd fd) {
      if (const auto found = endpoints_.find(grant); found != endpoints_.end())
        found->second.sockets.close(std::move(fd));
    };
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
    store_soon();
  }
  void context_began(int pid, std::uint32_t context) override { clients_.context_began(pid, context); }
  void context_ended(int pid, std::uint32_t context) override {
    clients_.notice(pid);  // with the contexts that it had, also if the log is read before its exit is seen
    if (clients_.context_ended(pid, context)) callbacks_.on_change();
    store_soon();
    if (clients_.remnant(pid) && clients_.contexts(pid) == 0) look();
    look_soon();
  }
  void listed(std::uint64_t asked, const std::vector<int>& pids) override {
    const bool open_known = clients_.has_exited() && look();
    if (clients_.listed(asked, pids, open_known)) changed();
  }
  void restore(const std::string& clients, const std::vector<std::string>& grants) override;
  void serve() override;
  void hold() override;
  std::uint64_t take_turn(std::function<void()> on_turn) override;
  void end_turn(std::uint64_t turn) override;
  void new_server() override { late_ = 0; }
  void remember(const std::string& grant, int pid) override {
    if (clients_.remember(grant, pid)) callbacks_.on_change();
  }
  EndpointView endpoint(const std::string& grant) const override;
  const std::string* grant_of(int pid) const override { return clients_.grant_of(pid); }
  std::size_t places() const override { return clients_.places(); }
  std::size_t contexts(int pid) const override { return clients_.contexts(pid); }
  std::size_t beyond_first(int pid) const override { return clients_.beyond_first(pid); }
  void in_container(int pid, std::string container, std::uint64_t started) override {
    clients_.in_container(pid, std::move(container), started);
  }
  std::vector<int> clients_in(const std::string& container) const override { return clients_.clients_in(container); }
  std::optional<RemnantView> remnant(int pid) const override { return clients_.remnant(pid); }
  std::vector<int> former_remnants() const override { return clients_.remnants(""); }
  void tried(int remnant) override {
    clients_.tried(remnant);
    store_soon();
  }

 private:
  void watch_endpoint(const std::string& grant);
  void pause_endpoint(const std::string& grant, Duration pause);
  void accept_some(const std::string& grant);
  bool has_capacity(const RelayEndpoint& endpoint) const;
  void resume_endpoints();
  void pump();
  void pump_later();
  void prepare(std::uint64_t id, const std::string& grant);
  void prepared(std::uint64_t id, const Status& status);
  void own_turn(std::uint64_t id);
  bool refuses(RelayPassage& passage);
  bool waits_for_place(RelayPassage& passage, int looks);
  void wants_turn(RelayPassage& passage, int looks = 0);
  void looked(std::uint64_t id, bool refused);
  void introduced(RelayPassage& passage, const Status& as_itself);
  void let_in(RelayPassage& passage);
  void left(RelayPassage& passage, int pid);
  void changed();
  void store();
  void store_soon() {
    if (callbacks_.store && !store_.running()) store_.start(kStoreSoon, [this] { store(); });
  }
  bool look();
  void look_soon();
  void look_again();
  void ended(RelayPassage& passage);
  void count_end(RelayEndpoint& endpoint, const RelayPassage& passage, const mps::Passage& state);

  Loop& loop_;
  RelaySettings settings_;
  Callbacks callbacks_;
  RelayPassage::Callbacks passing_;
  ClientTable clients_;
  mps::RelayTurns turns_;
  std::map<std::string, RelayEndpoint> endpoints_;
  std::map<std::uint64_t, std::shared_ptr<RelayPassage>> passages_;
  std::set<std::uint64_t> orphans_;  // passages whose endpoint was closed, and for which the daemon looks for a server
  std::map<std::uint64_t, std::function<void()>> own_turns_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // prepare() and look() may answer after our end
  std::uint64_t next_id_ = 1;
  std::size_t handshakes_ = 0;
  std::size_t connections_ = 0;
  ExitedChildren exited_children_;
  bool serving_ = false;
  bool pumping_ = false;
  bool try_again_ = false;  // wait before the next attempt
  bool logged_not_itself_ = false;
  int late_ = 0;  // consecutive clients that got no server in time
  Timer wake_{loop_};
  std::map<std::uint64_t, int> without_place_;  // passages that wait for a place, with the number of their looks
  Timer place_look_{loop_};
  Timer look_{loop_};
  Duration look_wait_{};
  Timer store_{loop_};
  const std::string boot_ = boot_id();
  std::string stored_;  // the last text of store()
};

SocketRelay::~SocketRelay() {
  for (auto& [id, passage] : passages_) {
    passage->wait_for_server(kLastWait);
    passage->drop();
  }
  for (auto& [grant, endpoint] : endpoints_) {
    loop_.cancel(endpoint.watch);
    endpoint.sockets.close_listening(std::move(endpoint.listening));
  }
}

Status SocketRelay::open_endpoint(const std::string& grant, const Dir& directory) {
  if (endpoints_.contains(grant)) return {};
  TRY(Fd listening, listen_in(directory, "control"));
  RelayEndpoint& endpoint = endpoints_.try_emplace(grant, loop_, [this] { resume_endpoints(); }).first->second;
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
    if (passage->leave_to_server()) {
      orphans_.insert(passage->id());
      ++it;
      continue;
    }
    if (mps::is_handshake(passage->state())) --handshakes_;
    --connections_;
    if (!passage->was_let_in()) turns_.leave(passage->id());
    it = passages_.erase(it);
    passage->drop();
    if (passage->was_introduced() && !passage->counts())
      clients_.not_connected(passage->state().client.pid, passage->id());
  }
  turns_.forget(grant);
  found->second.sockets.close_listening(std::move(found->second.listening));
  endpoints_.erase(found);
  callbacks_.on_change();
  resume_endpoints();
  pump();
}

void SocketRelay::keep_waiting(const std::string& grant, bool waits) {
  const auto found = endpoints_.find(grant);
  if (found == endpoints_.end()) return;
  found->second.waits = waits;
  if (waits) loop_.cancel(std::exchange(found->second.watch, 0));
  resume_endpoints();
}

void SocketRelay::watch_endpoint(const std::string& grant) {
  RelayEndpoint& endpoint = endpoints_.at(grant);
  if (endpoint.watch != 0 || endpoint.pause.running()) return;
  endpoint.watch = loop_.watch(endpoint.listening.get(), EPOLLIN, [this, grant](std::uint32_t) { accept_some(grant); });
}

void SocketRelay::pause_endpoint(const std::string& grant, Duration pause) {
  RelayEndpoint& endpoint = endpoints_.at(grant);
  loop_.cancel(std::exchange(endpoint.watch, 0));
  endpoint.pause.start(pause, [this, grant] { watch_endpoint(grant); });
}

bool SocketRelay::has_capacity(const RelayEndpoint& endpoint) const {
  return !endpoint.waits && endpoint.handshakes + endpoint.sockets.closing() < settings_.handshakes_per_grant &&
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
    RelayEndpoint& endpoint = found->second;
    if (!has_capacity(endpoint)) return loop_.cancel(std::exchange(endpoint.watch, 0));
    // A connection that hangs up at once costs a tenant nothing, and this program 50 µs.
    const auto every = settings_.connection_every;
    const auto due = std::max(endpoint.paced, loop_.now() - every * settings_.connections_burst) + every;
    if (due > loop_.now()) return pause_endpoint(grant, due - loop_.now());
    Fd fd(::accept4(endpoint.listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd && errno == EAGAIN) return;
    if (!fd) return pause_endpoint(grant, kPauseWhenFull);  // out of descriptors or memory: it stays readable
    endpoint.paced = due;
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

void SocketRelay::resume_endpoints() {
  for (auto& [grant, endpoint] : endpoints_) {
    if (endpoint.watch == 0 && has_capacity(endpoint)) watch_endpoint(grant);
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
  while (const auto id = try_again_ ? std::nullopt : turns_.next()) {
    if (own_turns_.contains(*id)) {
      prepare(*id, kOurselves);
    } else if (const auto passage = passages_.at(*id); !refuses(*passage)) {
      prepare(*id, passage->grant());
    }
  }
  pumping_ = false;
  wake_.stop();
  if (try_again_) pump_later();
}

void SocketRelay::pump_later() {
  wake_.start(kTryAgain, [this] { pump(); });
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
  if (status && serving_ && passage->connect(settings_.daemon_socket)) return;
  turns_.back(id);
  if (pumping_) {
    try_again_ = true;
  } else if (serving_) {
    pump_later();
  }
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

// A client that has just destroyed a context, or ended, may have a place until its server has closed the connection. A
// client that would be refused meanwhile waits for that, and the servers' pipes are looked at once for all that wait.
bool SocketRelay::waits_for_place(RelayPassage& passage, int looks) {
  if (looks >= kLooksForPlace || !callbacks_.refuses_for_now) return false;
  if (!callbacks_.refuses_for_now(passage.grant(), passage.state().client.pid)) return false;
  without_place_.emplace(passage.id(), looks + 1);
  if (place_look_.running()) return true;
  place_look_.start(kLookForPlace, [this] {
    look();
    for (const auto& [id, count] : std::exchange(without_place_, {})) {
      const auto found = passages_.find(id);
      if (found != passages_.end()) wants_turn(*std::shared_ptr(found->second), count);
    }
  });
  return true;
}

void SocketRelay::wants_turn(RelayPassage& passage, int looks) {
  if (waits_for_place(passage, looks) || refuses(passage)) return;
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
  if (!as_itself && !std::exchange(logged_not_itself_, true)) callbacks_.on_not_itself(as_itself.error());
  if (as_itself) logged_not_itself_ = false;
  if (clients_.remember(passage.grant(), passage.state().client.pid, passage.take_connector())) {
    callbacks_.on_client(passage.grant(), passage.state().client.pid);
    callbacks_.on_change();
  }
  clients_.connects(passage.state().client.pid, passage.id());
  pump();
}

void SocketRelay::let_in(RelayPassage& passage) {
  RelayEndpoint& endpoint = endpoints_.at(passage.grant());
  ++endpoint.counters.let_in;
  late_ = 0;
  --endpoint.handshakes;
  --handshakes_;
  turns_.leave(passage.id());
  resume_endpoints();
  pump();
}

void SocketRelay::left(RelayPassage& passage, int pid) {
  clients_.notice(passage.state().client.pid);
  clients_.inherit(passage.state().client.pid, pid, passage.id(),
                   orphans_.contains(passage.id()) ? std::string() : passage.grant());
  callbacks_.on_change();
  look_soon();
  store();
}

void SocketRelay::restore(const std::string& clients, const std::vector<std::string>& grants) {
  auto stored = mps::parse_clients(clients);
  if (stored.boot.empty() || stored.boot != boot_) return;
  for (auto& client : stored.clients) {
    if (std::ranges::find(grants, client.grant) == grants.end()) client.grant.clear();
    clients_.restore(client);
  }
}

void SocketRelay::changed() {
  callbacks_.on_change();
  store_soon();
}

void SocketRelay::store() {
  if (!callbacks_.store) return;
  store_.stop();
  auto text = mps::render_clients({boot_, clients_.stored()});
  if (text == stored_) return;
  stored_ = std::move(text);
  callbacks_.store(stored_);
}

// Which connections the servers still have. false: not known.
bool SocketRelay::look() {
  const auto open = callbacks_.open_pipes ? callbacks_.open_pipes() : std::nullopt;
  if (clients_.looked(open)) changed();
  return open.has_value();
}

// A server closes a client's channels a moment after the client's end, or that of a context. One that does not is
// looked at again with the server's next list.
void SocketRelay::look_soon() {
  if (!clients_.waits_for_server() || look_.running()) return;
  look_wait_ = kFirstLook;
  look_again();
}

void SocketRelay::look_again() {
  look_.start(look_wait_, [this] {
    look_wait_ *= 4;
    if (look() && clients_.waits_for_server() && look_wait_ <= kLastLook) look_again();
  });
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
  turns_.leave(turn);
  pump();
}

void SocketRelay::own_turn(std::uint64_t id) {
  turns_.connected(id);
  const auto on_turn = std::exchange(own_turns_.at(id), [] {});
  on_turn();
  pump();
}

void SocketRelay::ended(RelayPassage& passage) {
  const auto self = passage.shared_from_this();
  passages_.erase(passage.id());
  --connections_;
  const auto state = passage.state();
  const auto found = orphans_.erase(passage.id()) != 0 ? endpoints_.end() : endpoints_.find(passage.grant());
  if (!passage.was_let_in()) {
    --handshakes_;
    turns_.leave(passage.id());
  }
  if (passage.was_introduced() && !passage.counts()) clients_.not_connected(state.client.pid, passage.id());
  if (found != endpoints_.end()) {
    --found->second.connections;
    if (!passage.was_let_in()) --found->second.handshakes;
    if (state.exchange.completed) ++found->second.counters.completed;
    count_end(found->second, passage, state);
  }
  resume_endpoints();
  pump();
}

void SocketRelay::count_end(RelayEndpoint& endpoint, const RelayPassage& passage, const mps::Passage& state) {
  using enum mps::RelayEnd;
  if (state.end == kLooked || state.end == kLeft || state.end == kDone || state.end == kAsked) return;
  if (mps::is_attempt(state.end)) {
    ++endpoint.counters.attempts;
  } else if (state.end == kRefused || state.end == kAbandoned) {
    ++endpoint.counters.refused;
  } else {
    ++endpoint.counters.failed;
  }
  callbacks_.on_trouble(passage.grant(), state, passage.user());
  if (state.end == kServerLate) ++late_;
  const bool foreign = !state.exchange.carried || state.exchange.foreign;
  const bool may_be_stuck = state.end == kBrokeOff || (state.garbled && foreign);
  const bool doubted = may_be_stuck || (state.end == kServerLate && late_ >= kLateInARow);
  if (doubted && callbacks_.on_server_doubted)
    callbacks_.on_server_doubted("a client of grant " + passage.grant() + " " + std::string(to_string(state.end)));
  callbacks_.on_change();
}

EndpointView SocketRelay::endpoint(const std::string& grant) const {
  const auto found = endpoints_.find(grant);
  return {clients_.of(grant), clients_.remnants(grant), clients_.places(grant),
          found == endpoints_.end() ? EndpointCounters{} : found->second.counters};
}

}  // namespace

std::unique_ptr<Relay> Relay::open(Loop& loop, RelaySettings settings, Callbacks callbacks) {
  return std::make_unique<SocketRelay>(loop, std::move(settings), std::move(callbacks));
}

}  // namespace tranche::host
