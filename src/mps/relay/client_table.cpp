#include "mps/relay/relay.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "base/text.h"
#include "os/clock/clock.h"

namespace tranche::mps {
namespace {

// The two ends of a pipe have the same number, those of a socket have not.
bool is_pipe(std::string_view channel) {
  return channel.starts_with("pipe:");
}

}  // namespace

bool look_at_descriptors(int pid, const std::function<bool(std::string_view channel)>& look) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(fmt::format("/proc/{}/fd", pid).c_str()), ::closedir);
  bool any = false, more = true;
  while (const dirent* entry = folder && more ? ::readdir(folder.get()) : nullptr) {
    char link[64];
    const auto length = ::readlinkat(::dirfd(folder.get()), entry->d_name, link, sizeof link);
    const bool whole = length > 0 && static_cast<std::size_t>(length) < sizeof link;
    any = any || whole;
    more = look(whole ? std::string_view(link, static_cast<std::size_t>(length)) : std::string_view());
  }
  return any;  // the descriptors of a process that exits at this moment are gone one after the other
}

bool add_open_pipes(int pid, std::set<Channel>& pipes) {
  return look_at_descriptors(pid, [&pipes](std::string_view channel) {
    if (is_pipe(channel)) pipes.emplace(channel);
    return true;
  });
}

const ClientTable::Client& ClientTable::client(int pid) const {
  static const Client none;
  const auto* const known = find_in(clients_, pid);
  return known == nullptr ? none : *known;
}

ClientTable::~ClientTable() {
  for (const auto& [pid, client] : clients_) loop_.cancel(client.watch);
}

bool ClientTable::Client::alive() const {
  return exited == 0 && !os::has_ended(pidfd);
}

// The server counts each CUDA context of a process against its limit, and not the process's own connection, whose
// message 7 has number 0. It counts each connection with a different number as a context.
std::size_t ClientTable::Client::contexts() const {
  return count([](const ClientConnection& each) { return each.context.has_value(); });
}

std::size_t ClientTable::Client::open() const {
  return count([](const ClientConnection& each) { return !each.own && each.followed(); });
}

std::size_t ClientTable::Client::beyond_first(bool pipes_known) const {
  return pipes_known && followed() ? std::max(contexts(), open()) : contexts();
}

std::size_t ClientTable::places(const Client& client) const {
  const auto* const heir = find_in(clients_, client.place_with);
  const bool moved = heir != nullptr && heir->exited != 0 && heir->started == client.started;
  const bool has_first = !moved && (client.exited == 0 || client.has_channels());
  return std::max<std::size_t>(has_first ? 1 : 0, client.beyond_first(pipes_known_));
}

std::vector<Channel> KnownClient::channels() const {
  std::vector<Channel> all;
  for (const auto& each : connections) all.insert(all.end(), each.channels.begin(), each.channels.end());
  return all;
}

ClientConnection& ClientTable::Client::connection(ConnectionId id) {
  const auto found = std::ranges::find(connections, id, &ClientConnection::id);
  return found == connections.end() ? connections.emplace_back(id) : *found;
}

void ClientTable::Client::drop_closed() {
  std::erase_if(connections,
                [](const ClientConnection& each) { return each.channels.empty() && !each.own && !each.context; });
}

bool ClientTable::Client::has_channels() const {
  return count([](const ClientConnection& each) { return !each.channels.empty(); }) > 0;
}

bool ClientConnection::followed() const {
  return std::ranges::any_of(channels, is_pipe);
}

bool ClientTable::Client::followed() const {
  return may_have_more() && count(&ClientConnection::followed) > 0;
}

bool ClientTable::remember(const std::string& grant, int pid, os::Fd pidfd) {
  if (pid <= 0 || !pidfd || os::has_ended(pidfd)) return false;
  if (const auto* const known = find_in(clients_, pid)) {
    if (known->alive()) return false;
    exited(pid);
    if (client(pid).may_stay()) return false;
    clients_.erase(pid);  // a new process reuses its pid
  }
  const auto watch = loop_.watch(pidfd.get(), EPOLLIN, [this, pid](std::uint32_t) { exited(pid); });
  if (watch == 0) return false;
  Client client{{.pid = pid, .grant = grant}};
  client.pidfd = std::move(pidfd);
  client.watch = watch;
  clients_.emplace(pid, std::move(client));
  return true;
}

std::vector<KnownClient> ClientTable::stored() const {
  std::vector<KnownClient> all;
  for (const auto& [pid, client] : clients_)
    if (client.started != 0) all.push_back(client);
  return all;
}

void ClientTable::restore(const KnownClient& stored) {
  const int pid = stored.pid;
  if (clients_.contains(pid)) return;
  Client client{stored};
  for (auto& each : client.connections) {
    each.id = 0;
    if (client.has_own()) client.next_context = std::max(client.next_context, each.context.value_or(0) + 1);
  }
  client.pidfd = os::open_pidfd(pid).value_or(os::Fd());
  const auto process = os::process_ref(pid);
  if (client.pidfd && process && process->start_ticks == stored.started)
    client.watch = loop_.watch(client.pidfd.get(), EPOLLIN, [this, pid](std::uint32_t) { exited(pid); });
  if (client.watch == 0) {
    client.pidfd.reset();
    client.exited = std::max<std::uint64_t>(os::boot_ticks(), 1);
    if (!client.may_stay()) return;
  }
  clients_.emplace(pid, std::move(client));
}

void ClientTable::disown(const std::string& grant) {
  for (auto& [pid, client] : clients_) {
    if (client.grant == grant) client.grant.clear();
  }
}

void ClientTable::exited(int pid) {
  auto* const known = find_in(clients_, pid);
  if (known == nullptr || known->exited != 0) return;
  Client& client = *known;
  client.exited = std::max<std::uint64_t>(os::boot_ticks(), 1);
  const os::Fd pidfd =
      std::move(client.pidfd);  // closed after its watch is cancelled: another thread may get the number
  const auto watch = std::exchange(client.watch, 0);
  const auto on_gone = on_gone_;  // cancelling destroys the closure that runs, at its end
  if (!client.may_stay()) clients_.erase(pid);
  loop_.cancel(watch);
  on_gone(pid);
}

std::vector<int> ClientTable::of(const std::string& grant) const {
  return pids_where([&](const Client& client) { return client.grant == grant && client.alive(); });
}

const std::string* ClientTable::grant_of(int pid) const {
  const auto* const known = find_in(clients_, pid);
  return known == nullptr || !known->alive() ? nullptr : &known->grant;
}

void ClientTable::notice(int pid) {
  if (const auto* const known = find_in(clients_, pid); known != nullptr && !known->alive()) exited(pid);
}

void ClientTable::inherit(int client, int pid, ConnectionId connection, const std::string& grant) {
  Client& left = clients_[pid];
  left.pid = pid;
  left.grant = grant;
  left.exited = std::max<std::uint64_t>(os::boot_ticks(), 1);
  auto* const from = find_in(clients_, client);
  if (from == nullptr) return;
  const auto moved = std::ranges::find(from->connections, connection, &ClientConnection::id);
  if (moved == from->connections.end()) return;  // a later process
  left.container = from->container;
  left.started = from->started;
  left.connections.push_back(*std::move(moved));
  left.connections.back().own = true;
  from->connections.erase(moved);
  from->place_with = pid;
  if (from->exited != 0 && !from->may_stay()) clients_.erase(client);
}

void ClientTable::gets(int pid, ConnectionId connection, const Channel& channel) {
  auto* const known = find_in(clients_, pid);
  if (known == nullptr) return;
  // Several descriptors of one connection may be ends of the same pipe.
  auto& channels = known->connection(connection).channels;
  if (known->may_have_more() && std::ranges::find(channels, channel) == channels.end()) channels.push_back(channel);
}

// A process has one connection of its own; what it calls a further one takes a place like a context (measured).
void ClientTable::connected(int pid, ConnectionId connection, std::uint32_t context) {
  auto* const known = find_in(clients_, pid);
  if (known == nullptr) return;
  known->next_context = std::max(known->next_context, std::min(context, kHighestContext - 1) + 1);
  auto& connected = known->connection(connection);
  connected.own = context == 0 && !known->has_own();
  if (!connected.own) connected.context = context;
  known->drop_closed();
}

void ClientTable::context_began(int pid, std::uint32_t context) {
  auto* const known = find_in(clients_, pid);
  if (known == nullptr) return;
  const auto of = std::ranges::find_if(
      known->connections, [&](const ClientConnection& each) { return each.context == context && !each.named; });
  if (of == known->connections.end())
    known->connections.push_back({.context = context, .named = true});
  else
    of->named = true;
}

bool ClientTable::context_ended(int pid, std::uint32_t context) {
  auto* const known = find_in(clients_, pid);
  if (known == nullptr) return false;
  ClientConnection* of = nullptr;  // of several with this number one that the server has named
  for (auto& each : known->connections)
    if (each.context == context && (of == nullptr || each.named)) of = &each;
  if (of != nullptr) of->context.reset();
  known->drop_closed();
  return known->exited != 0 && !known->may_stay() && clients_.erase(pid) > 0;
}

bool ClientTable::listed(std::uint64_t asked, const std::vector<int>& pids, bool open_known) {
  const auto is_listed = [&](int pid) { return std::ranges::find(pids, pid) != pids.end(); };
  const auto had_exited = [&](const Client& client) { return client.exited != 0 && client.exited < asked; };
  for (auto& [pid, client] : clients_)
    if (had_exited(client) && is_listed(pid)) client.listed = true;
  return std::erase_if(clients_, [&](const auto& each) {
           const auto& [pid, client] = each;
           return had_exited(client) && !is_listed(pid) && !(open_known && client.followed());
         }) > 0;
}

bool ClientTable::looked(const std::optional<std::set<Channel>>& open) {
  bool changed = std::exchange(pipes_known_, open.has_value()) != pipes_known_;
  for (auto it = clients_.begin(); it != clients_.end();) {
    Client& client = it->second;
    // A client whose exit is about to be noticed exits with the contexts that it had: its memory may still be held.
    const bool exits = client.exited == 0 && !client.alive();
    const bool follows = open && client.followed() && !exits;
    if (follows) {
      const auto before = client.beyond_first(true);
      for (auto& connection : client.connections) {
        const bool known = !connection.channels.empty();
        std::erase_if(connection.channels,
                      [&](const Channel& channel) { return is_pipe(channel) && !open->contains(channel); });
        if (known && !connection.followed())
          connection = {.id = connection.id, .own = connection.own};  // its context has ended, named or not
      }
      client.drop_closed();
      changed = changed || client.beyond_first(true) != before;
    }
    const bool empty = follows ? !client.has_channels() : !client.may_stay();
    const bool over = empty && client.exited != 0;
    changed = changed || over;
    it = over ? clients_.erase(it) : std::next(it);
  }
  return changed;
}

bool ClientTable::waits_for_server() const {
  return std::ranges::any_of(clients_, [](const auto& each) {
    const Client& client = each.second;
    return client.exited != 0 || (client.followed() && client.open() > client.count([](const ClientConnection& of) {
             return of.context && of.named;
           }));
  });
}

std::size_t ClientTable::places(const std::string& grant) const {
  std::size_t places = 0;
  for (const auto& [pid, client] : clients_) places += client.grant == grant ? this->places(client) : 0;
  return places;
}

std::vector<int> ClientTable::remnants(const std::string& grant) const {
  return pids_where([&](const Client& client) { return client.grant == grant && client.exited != 0; });
}

std::optional<KnownClient> ClientTable::remnant(int pid) const {
  const Client& known = client(pid);
  return known.exited == 0 ? std::nullopt : std::optional<KnownClient>(known);
}

void ClientTable::tried(int remnant) {
  if (auto* const known = find_in(clients_, remnant)) ++known->tries;
}

void ClientTable::in_container(int pid, std::string container, std::uint64_t started) {
  auto* const known = find_in(clients_, pid);
  if (known == nullptr) return;
  known->container = std::move(container);
  known->started = started;
}

std::vector<int> ClientTable::clients_in(const std::string& container) const {
  return pids_where([&](const Client& client) { return client.container == container && client.alive(); });
}

// --- what is kept of them --------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kBoot = "boot\t";
constexpr std::string_view kOwn = "own", kNoContext = "-";  // in place of the number of a connection's context

// "" if it would end a field or a line.
std::string plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; }) ? std::string(text) : std::string();
}

std::optional<KnownClient> client_in(std::string_view line) {
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  const auto fields = split(line, '\t');
  if (fields.size() != 7) return std::nullopt;
  bool fits = true;
  const auto number = [&](std::string_view text, std::uint64_t most) {
    const auto value = parse_unsigned(text);
    fits = fits && value && *value <= most;
    return fits ? *value : 0;
  };
  KnownClient client;
  client.pid = static_cast<int>(number(fields[0], kMost));
  client.started = number(fields[1], std::numeric_limits<std::uint64_t>::max());
  client.tries = static_cast<unsigned>(number(fields[2], kMost));
  client.place_with = static_cast<int>(number(fields[3], kMost));
  client.grant = plain(fields[4]);
  for (const auto connection : split(fields[5], ';')) {
    const auto words = words_of(connection);
    if (words.empty()) continue;
    auto& read = client.connections.emplace_back();
    read.channels.assign(words.begin() + 1, words.end());
    read.own = words[0] == kOwn;
    read.named = !read.own && words[0] != kNoContext;
    if (read.named)
      read.context = static_cast<std::uint32_t>(number(words[0], std::numeric_limits<std::uint32_t>::max()));
  }
  client.container = plain(fields[6]);
  return fits && client.pid != 0 ? std::optional(client) : std::nullopt;
}

}  // namespace

std::string render_clients(const StoredClients& stored) {
  std::string text = fmt::format("{}{}\n", kBoot, stored.boot);
  for (const auto& client : stored.clients) {
    std::vector<std::string> connections;
    for (const auto& each : client.connections) {
      auto& words = connections.emplace_back(each.own ? kOwn : kNoContext);
      if (each.context) words = std::to_string(*each.context);
      for (const auto& channel : each.channels) words += ' ' + channel;
    }
    text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\n", client.pid, client.started, client.tries, client.place_with,
                        client.grant, fmt::join(connections, ";"), plain(client.container));
  }
  return text;
}

StoredClients parse_clients(std::string_view text) {
  StoredClients stored;
  for (const auto line : lines_of(text)) {
    if (line.starts_with(kBoot))
      stored.boot = plain(line.substr(kBoot.size()));
    else if (auto client = client_in(line))
      stored.clients.push_back(*std::move(client));
  }
  return stored;
}

}  // namespace tranche::mps
