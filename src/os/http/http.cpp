#include "os/http/http.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <ranges>
#include <thread>

#include "base/text.h"
#include "os/loop/fd.h"
#include "os/loop/loop.h"

namespace tranche::os {
namespace {

constexpr int kBacklog = 1024;  // a client beyond it waits one second for its next attempt (TCP)
constexpr int kAcceptedPerCallback = 8;
constexpr int kSilentSeconds = 1;
constexpr Duration kPauseWhenFull = std::chrono::seconds(1);
constexpr Duration kRest = std::chrono::seconds(1);
constexpr int kBadRequest = 400;
constexpr int kHeadTooLong = 431;
constexpr std::uint32_t kReadable = EPOLLIN | EPOLLRDHUP;

std::string_view reason_of(int status) {
  static const std::map<int, std::string_view> kReasons{{200, "OK"},
                                                        {400, "Bad Request"},
                                                        {404, "Not Found"},
                                                        {405, "Method Not Allowed"},
                                                        {421, "Misdirected Request"},
                                                        {431, "Request Header Fields Too Large"},
                                                        {503, "Service Unavailable"}};
  const auto found = kReasons.find(status);
  return found == kReasons.end() ? "Status" : found->second;
}

LongText message_of(const HttpAnswer& answer, bool with_body) {
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " ";
  head.append(reason_of(answer.status)).append("\r\n");
  head += "Content-Type: " + answer.content_type + "\r\n";
  head += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  if (answer.status == 405) head += "Allow: GET, HEAD\r\n";
  if (!answer.content_policy.empty())
    head += "Content-Security-Policy: " + answer.content_policy +
            "\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n";
  head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n";
  LongText message = std::move(head);
  if (with_body) message += answer.body;
  return message;
}

// Several blocks in one call: small ones do not become packets of their own.
ssize_t send_some(const Fd& fd, const LongText& text, std::size_t at, std::size_t sent) {
  std::array<iovec, 64> parts{};
  std::size_t count = 0;
  for (; count < parts.size() && at + count < text.blocks().size(); ++count) {
    auto& block = *text.blocks()[at + count];
    const std::size_t from = count == 0 ? sent : 0;
    parts[count] = {block.data() + from, block.size() - from};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  return ::sendmsg(fd.get(), &message, MSG_NOSIGNAL);
}

// The bytes of an address. All clients of one socket have addresses of its family.
std::string peer_of(const sockaddr_storage& address) {
  if (address.ss_family != AF_INET6)
    return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr), sizeof(in_addr)};
  return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr), sizeof(in6_addr)};
}

class LoopHttpServer final : public HttpServer {
 public:
  LoopHttpServer(ListenAddress address, Routes routes, HttpLimits limits, std::function<void()> at_rest)
      : address_(std::move(address)), routes_(std::move(routes)), limits_(limits), at_rest_(std::move(at_rest)) {}
  ~LoopHttpServer() override {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
  }

  LoopHttpServer(const LoopHttpServer&) = delete;
  LoopHttpServer& operator=(const LoopHttpServer&) = delete;

  Status start() {
    TRY(listening_, listen());
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
      return fail_errno("cannot learn the port of the HTTP server", to_string(address_));
    address_.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                                      : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
    TRY(loop_, Loop::open());
    if (at_rest_) rest_.emplace(*loop_);
    if (!watch_listening())
      return fail(Kind::kUnavailable, "the event loop cannot watch the HTTP socket", to_string(address_));
    thread_ = std::thread([this] { loop_->run(); });
    return {};
  }

  std::uint16_t port() const override { return address_.port; }
  std::string address() const override { return to_string(address_); }

 private:
  enum class Phase { kHead, kAnswer, kEnd };
  struct Connection {
    explicit Connection(Loop& loop) : deadline(loop) {}
    Fd fd;
    std::string peer;
    Phase phase = Phase::kHead;
    std::string in;
    LongText out;
    std::size_t at = 0, sent = 0;  // the block that is being sent, and how much of it has been
    Loop::Id watch = 0;
    Timer deadline;
  };
  using Connections = std::map<std::uint64_t, Connection>;  // oldest first

  Result<Fd> listen() {
    if (address_.host.find(':') != std::string::npos) return listen_on(AF_INET6);
    if (!address_.host.empty()) return listen_on(AF_INET);
    auto both = listen_on(AF_INET6);
    // The kernel may have no IPv6; a port in use is in use for either family.
    return both || both.error().kind == Kind::kConflict ? std::move(both) : listen_on(AF_INET);
  }

  Result<Fd> listen_on(int family) {
    Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return fail_errno("cannot listen for HTTP", to_string(address_));
    const int yes = 1, no = 0;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    // The kernel reports a connection with its first bytes, usually the whole request, or after this many seconds.
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &kSilentSeconds, sizeof kSilentSeconds);
    if (family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    addrinfo wanted{};
    wanted.ai_family = family;
    wanted.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    ::getaddrinfo(address_.host.empty() ? nullptr : address_.host.c_str(), std::to_string(address_.port).c_str(),
                  &wanted, &found);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> at(found, ::freeaddrinfo);
    if (at && ::bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(fd.get(), kBacklog) == 0) return fd;
    const int err = errno;
    if (err == EADDRINUSE) {
      return fail(Kind::kConflict, "cannot listen for HTTP: another program has this port; choose another or 0 for any",
                  to_string(address_), err);
    }
    return fail_errno("cannot listen for HTTP", to_string(address_), err);
  }

  bool watch_listening() {
    watch_ = loop_->watch(listening_.get(), EPOLLIN, [this](std::uint32_t) { accept_some(); });
    return watch_ != 0;
  }

  void accept_some() {
    // A few at a time, so that arrived requests are answered between two rounds of a flood.
    for (int i = 0; i < kAcceptedPerCallback; ++i) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      Fd fd(::accept4(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd) {
        add(std::move(fd), peer_of(address));
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // Out of descriptors or memory: the socket stays readable, so pause the watch.
      loop_->cancel(std::exchange(watch_, 0));
      loop_->after(kPauseWhenFull, [this] { watch_listening(); });
      return;
    }
  }

  // Closes the oldest connection of a peer that has as many as it may, or else of the peer with the most. Among peers
  // with equally many, the one with the oldest connection loses it.
  void make_room_for(const std::string& peer) {
    std::map<std::string_view, std::size_t> counts;
    for (const auto& [id, connection] : connections_) ++counts[connection.peer];
    const bool is_own = counts[peer] >= limits_.of_one_peer;
    if (!is_own && connections_.size() < limits_.connections) return;
    const auto most = std::ranges::max(std::views::values(counts));
    close(std::ranges::find_if(connections_, [&](const auto& entry) {
            return is_own ? entry.second.peer == peer : counts[entry.second.peer] == most;
          })->first);
  }

  void add(Fd fd, std::string peer) {
    make_room_for(peer);
    if (rest_) rest_->stop();
    const auto id = next_id_++;
    auto& connection = connections_.try_emplace(id, *loop_).first->second;
    connection.fd = std::move(fd);
    connection.peer = std::move(peer);
    enter(id, connection, Phase::kHead, kReadable, limits_.head);
    advance(id);  // before a newer connection can replace it
  }

  void enter(std::uint64_t id, Connection& connection, Phase phase, std::uint32_t events, Duration deadline) {
    connection.phase = phase;
    loop_->cancel(std::exchange(connection.watch, 0));
    connection.deadline.start(deadline, [this, id] { close(id); });
    connection.watch = loop_->watch(connection.fd.get(), events, [this, id](std::uint32_t) { advance(id); });
    if (connection.watch == 0) close(id);
  }

  void advance(std::uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    if (found->second.phase == Phase::kAnswer) return write_answer(id, found->second);
    read_some(id, found->second);
  }

  void read_some(std::uint64_t id, Connection& connection) {
    char buffer[4096];
    const ssize_t got = ::recv(connection.fd.get(), buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return close(id);
    if (connection.phase == Phase::kEnd) return;
    connection.in.append(buffer, static_cast<std::size_t>(got));
    const auto request = read_http_request(connection.in, limits_.head_bytes);
    if (!request) return;
    connection.in.clear();
    connection.out = answer_to(*request);
    write_answer(id, connection);
  }

  void write_answer(std::uint64_t id, Connection& connection) {
    const auto& blocks = connection.out.blocks();
    while (connection.at < blocks.size()) {
      const auto sent = send_some(connection.fd, connection.out, connection.at, connection.sent);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) {
        if (connection.phase == Phase::kHead) enter(id, connection, Phase::kAnswer, EPOLLOUT, limits_.answer);
        return;
      }
      if (sent < 0) return close(id);
      connection.sent += static_cast<std::size_t>(sent);
      while (connection.at < blocks.size() && connection.sent >= blocks[connection.at]->size())
        connection.sent -= blocks[connection.at++]->size();
    }
    connection.out = {};
    connection.at = connection.sent = 0;
    // Closing at once, with input unread, would make the kernel discard output that the client has not read yet.
    ::shutdown(connection.fd.get(), SHUT_WR);
    enter(id, connection, Phase::kEnd, kReadable, limits_.head);
  }

  void close(std::uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    loop_->cancel(found->second.watch);
    connections_.erase(found);
    if (rest_ && connections_.empty()) rest_->start(kRest, at_rest_);
  }

  LongText answer_to(const PageRequest& request) const {
    if (request.refused != 0)
      return message_of({.status = request.refused, .body = std::string(reason_of(request.refused)) + "\n"}, true);
    const bool get = request.method == "GET";
    if (!get && request.method != "HEAD") return message_of({.status = 405, .body = "only GET and HEAD\n"}, true);
    if (limits_.only_own_names && !is_own_name(request.host))
      return message_of({.status = 421, .body = "only as http://127.0.0.1 or http://localhost\n"}, true);
    const auto route = routes_.find(request.path);
    if (route != routes_.end()) return message_of(route->second(), get);
    std::string missing = "there is no such page; there are:\n";
    for (const auto& [known, callback] : routes_) missing += known + "\n";
    return message_of({.status = 404, .body = std::move(missing)}, get);
  }

  ListenAddress address_;
  Routes routes_;
  HttpLimits limits_;
  std::function<void()> at_rest_;
  std::unique_ptr<Loop> loop_;
  std::optional<Timer> rest_;
  Fd listening_;
  Loop::Id watch_ = 0;
  std::uint64_t next_id_ = 1;
  Connections connections_;
  std::thread thread_;  // runs the loop; owns all members above once started
};

bool is_ip(int family, const std::string& text) {
  if (text.find('\0') != std::string::npos) return false;  // inet_pton would stop at the NUL
  in6_addr address{};                                      // large enough for both families
  return ::inet_pton(family, text.c_str(), &address) == 1;
}

// "GET /metrics?x=1 HTTP/1.1"
PageRequest read_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto target_at = line.find(' ');
  const auto version_at = line.rfind(' ');
  if (target_at == std::string_view::npos || version_at <= target_at + 1) return {.refused = kBadRequest};
  const auto target = line.substr(target_at + 1, version_at - target_at - 1);
  const auto is_plain = [](unsigned char byte) { return byte > 0x20 && byte < 0x7f; };
  if (!line.substr(version_at + 1).starts_with("HTTP/1.") || !std::ranges::all_of(target, is_plain))
    return {.refused = kBadRequest};
  return {.method = std::string(line.substr(0, target_at)), .path = std::string(target.substr(0, target.find('?')))};
}

// The value of the first header of this name, which is in lower case; "" = none.
std::string_view header(std::string_view head, std::string_view name) {
  for (const auto line : lines_of(head)) {
    const auto colon = line.find(':');
    if (colon == name.size() && std::ranges::equal(line.substr(0, colon), name, {}, to_lower))
      return trimmed(line.substr(colon + 1));
  }
  return {};
}

// "localhost:9480" → "localhost".
std::string without_port(std::string_view host) {
  const auto port = host.rfind(':');
  const bool is_v6 = host.starts_with('[');
  if (port == std::string_view::npos || (is_v6 && host.ends_with(']'))) return std::string(host);
  return std::string(host.substr(0, port));
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    return fail(Kind::kInvalid,
                why + "; write an IP address and a port, for example 127.0.0.1:9400, [::1]:9400 or :9400",
                in_quotes(text));
  };
  ListenAddress address;
  const auto colon = text.rfind(':');
  const auto port = parse_unsigned(colon == std::string_view::npos ? text : text.substr(colon + 1));
  if (!port || *port > std::numeric_limits<std::uint16_t>::max()) return refuse("not a port from 0 to 65535");
  address.port = static_cast<std::uint16_t>(*port);
  if (colon == std::string_view::npos || colon == 0) return address;
  auto host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']') && host.size() > 2) {
    address.host = host.substr(1, host.size() - 2);
    if (!is_ip(AF_INET6, address.host)) return refuse("not an IPv6 address");
    return address;
  }
  address.host = host;
  if (!is_ip(AF_INET, address.host)) return refuse("not an IPv4 address");
  return address;
}

std::string to_string(const ListenAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

std::optional<PageRequest> read_http_request(std::string_view bytes, std::size_t longest) {
  const auto end = std::min(bytes.find("\r\n\r\n"), bytes.find("\n\n"));
  if (std::min(end, bytes.size()) > longest) return PageRequest{.refused = kHeadTooLong};
  if (end == std::string_view::npos) return std::nullopt;
  const auto line = bytes.find('\n');
  auto request = read_line(bytes.substr(0, line));
  const auto headers = bytes.substr(line + 1, end - std::min(line + 1, end));
  request.host = without_port(header(headers, "host"));
  return request;
}

bool is_own_name(std::string_view host) {
  if (host == "localhost" || host == "[::1]") return true;
  const auto parts = split(host, '.');
  return parts.size() == 4 && parts[0] == "127" && std::ranges::all_of(parts, [](std::string_view part) {
           const auto number = parse_unsigned(part);
           return number && *number <= 255;
         });
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(const std::string& listen, Routes routes, HttpLimits limits,
                                                     std::function<void()> at_rest) {
  TRY(auto address, parse_listen_address(listen));
  auto server = std::make_unique<LoopHttpServer>(std::move(address), std::move(routes), limits, std::move(at_rest));
  TRY_STATUS(server->start());
  return server;
}

}  // namespace tranche::os
