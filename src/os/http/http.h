#pragma once
// A small HTTP server for metrics, health and the status page: GET and HEAD on exact paths; it refuses everything else.
// No TLS, no files, no keep-alive. Every client in the network may connect, so every resource is bounded (HttpLimits),
// and a client that sends nothing or does not read delays no other. A request that arrives whole is answered at once.
// At a bound, the server closes the oldest connection of the peer with the most connections to accept the newest.
//
// Threads: the server has a thread and an event loop of its own. It calls the routes one at a time, so a route reads an
// immutable snapshot and does not wait. Any one thread may open and destroy the server; destroying it waits for the
// running route.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "base/time.h"

namespace tranche::os {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  LongText body = {};               // sent from its blocks, which a route may keep
  std::string content_policy = {};  // of an HTML page: what it permits the browser to do

  static HttpAnswer text(LongText body) { return {.body = std::move(body)}; }
  static HttpAnswer json(LongText body) { return {.content_type = "application/json", .body = std::move(body)}; }
  static HttpAnswer html(LongText body, std::string content_policy = "default-src 'none'") {
    return {.content_type = "text/html; charset=utf-8",
            .body = std::move(body),
            .content_policy = std::move(content_policy)};
  }
  // Prometheus text format, from metrics::to_text().
  static HttpAnswer metrics(LongText body) {
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(body)};
  }
};

struct HttpLimits {
  std::size_t connections = 64;                // in total
  std::size_t of_one_peer = 16;                // of one address
  std::size_t head_bytes = 8192;               // a longer request gets status 431
  Duration head = std::chrono::seconds(1);     // from the connection to the end of the request's head
  Duration answer = std::chrono::seconds(10);  // for the client to read the whole answer
  // Refuses a request whose Host is not this machine's loopback, so that another site's page cannot read ours through a
  // name that resolves to 127.0.0.1 (DNS rebinding).
  bool only_own_names = false;
};

class HttpServer {
 public:
  // By path; the query of a request is ignored.
  using Routes = std::map<std::string, std::function<HttpAnswer()>>;

  // listen: "127.0.0.1:9400", "[::1]:9400", ":9400" or "9400" (every address of this machine); port 0 = any free one.
  // kInvalid for any other form, kConflict if another program has the port.
  // at_rest: on the server's thread, a second after its last connection has closed.
  static Result<std::unique_ptr<HttpServer>> open(const std::string& listen, Routes routes, HttpLimits limits = {},
                                                  std::function<void()> at_rest = {});
  virtual ~HttpServer() = default;
  virtual std::uint16_t port() const = 0;   // the actual one
  virtual std::string address() const = 0;  // as configured, with the actual port: "127.0.0.1:41233", ":9400"
};

// The parts of the server that read text, for the server and its tests. Pure.

struct ListenAddress {
  std::string host;  // an IP address, IPv6 without brackets; "" = every address
  std::uint16_t port = 0;

  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};
Result<ListenAddress> parse_listen_address(std::string_view text);
std::string to_string(const ListenAddress& address);  // "127.0.0.1:9400", "[::1]:9400", ":9400"

// The head of a request, which is input from the network.
struct PageRequest {
  std::string method = {};
  std::string path = {};  // without the query
  std::string host = {};  // from the Host header, without the port; "" = none
  int refused = 0;        // status of the refusal, 400 or 431; 0 = a valid request
};

// Absent while the head is incomplete and shorter than `longest` bytes.
std::optional<PageRequest> read_http_request(std::string_view bytes, std::size_t longest);

// Whether `host` is always this machine, whatever a name server answers: "localhost", 127.0.0.0/8, "[::1]".
bool is_own_name(std::string_view host);

}  // namespace tranche::os
