#pragma once
// A small HTTP server for metrics, health and the status page: GET and HEAD on exact paths, everything else is refused.
// No TLS, no files, no keep-alive. Every client of the network may connect, so every resource has a bound (HttpLimits),
// and a client that sends nothing, or does not read, delays no other: a request that comes whole is answered at once,
// and where a bound is reached, the oldest connection of the peer with the most connections is closed for the newest.
//
// Threads: the server has one thread of its own, with an event loop of its own. It calls the routes, one at a time, so
// a route reads an immutable snapshot and does not wait. Opened and destroyed by any one thread; destroying it waits
// for the route that runs.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/time.h"

namespace tranche::host {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string content_policy = {};  // of an HTML page, what a browser may do with it

  static HttpAnswer text(std::string body) { return {.body = std::move(body)}; }
  static HttpAnswer json(std::string body) { return {.content_type = "application/json", .body = std::move(body)}; }
  static HttpAnswer html(std::string body, std::string content_policy = "default-src 'none'") {
    return {.content_type = "text/html; charset=utf-8",
            .body = std::move(body),
            .content_policy = std::move(content_policy)};
  }
  // Prometheus' text format, as metrics::to_text() writes it.
  static HttpAnswer metrics(std::string body) {
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(body)};
  }
};

struct HttpLimits {
  std::size_t connections = 64;                // in total
  std::size_t of_one_peer = 16;                // of one address
  std::size_t head_bytes = 8192;               // a longer request is answered 431
  Duration head = std::chrono::seconds(1);     // from the connection to the end of the request's head
  Duration answer = std::chrono::seconds(10);  // for the client to read the whole answer
  // Refuses a request whose Host is not this machine's loopback: a page of others may not read what a browser here can,
  // by a name that leads to 127.0.0.1 (DNS rebinding).
  bool only_own_names = false;
};

class HttpServer {
 public:
  using Routes = std::map<std::string, std::function<HttpAnswer()>>;                   // "/metrics" → answer
  using Queries = std::map<std::string, std::function<HttpAnswer(std::string_view)>>;  // with the query, as it came

  // listen: "127.0.0.1:9400", "[::1]:9400", ":9400" or "9400" (every address of this machine); port 0 = any free one.
  // kInvalid when it is none of these, kConflict when another program has the port.
  static Result<std::unique_ptr<HttpServer>> open(const std::string& listen, Routes routes, HttpLimits limits = {},
                                                  Queries queries = {});
  virtual ~HttpServer() = default;
  virtual std::uint16_t port() const = 0;   // the real one
  virtual std::string address() const = 0;  // as asked for, with the real port: "127.0.0.1:41233", ":9400"
};

}  // namespace tranche::host
