#pragma once
// A small HTTP server for metrics, health and the status page: GET and HEAD on exact paths, everything else is refused.
// No TLS, no files, no keep-alive: bind it to an address that only the right people reach.
//
// Threads: two of CivetWeb's own call the routes, at any time, concurrently: a route reads an immutable snapshot and
// nothing else. Opened and destroyed by any one thread; destroying it waits for the routes that run, and
// for a client that is connected and sends nothing up to two seconds (CivetWeb's own interval).
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"

namespace tranche::host {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};

  static HttpAnswer text(std::string body) { return {.body = std::move(body)}; }
  static HttpAnswer json(std::string body) { return {.content_type = "application/json", .body = std::move(body)}; }
  static HttpAnswer html(std::string body) {
    return {.content_type = "text/html; charset=utf-8", .body = std::move(body)};
  }
  // Prometheus' text format, as metrics::to_text() writes it.
  static HttpAnswer metrics(std::string body) {
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(body)};
  }
};

class HttpServer {
 public:
  using Routes = std::map<std::string, std::function<HttpAnswer()>>;  // "/metrics" → answer

  // listen: "127.0.0.1:9400", "[::1]:9400", ":9400" or "9400" (every address of this machine); port 0 = any free one.
  // kInvalid when it is none of these, kConflict when another program has the port.
  static Result<std::unique_ptr<HttpServer>> open(const std::string& listen, Routes routes);
  virtual ~HttpServer() = default;
  virtual std::uint16_t port() const = 0;   // the real one
  virtual std::string address() const = 0;  // as asked for, with the real port: "127.0.0.1:41233", ":9400"
};

}  // namespace tranche::host
