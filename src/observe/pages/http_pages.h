#pragma once
// The HTTP pages of a program with a loop. Beside the routes it is given there is /healthz, which reports whether the
// loop runs, and /metrics has what every program reports of itself. A port that is taken is no reason to end: the
// program works without its pages, problem() says so, and opening is tried again with back-off.
// Loop thread only; the routes run on the HTTP server's thread.
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "os/http/http.h"
#include "os/loop/loop.h"

namespace tranche::observe {

struct LoopReport {
  std::int64_t worst_lateness_ms = 0;  // of the last minute
  std::string cpu_problem;             // of this program's control group (os/process/threads.h)
};

// A page for probes: 503 unless it is `well`.
os::HttpAnswer probe_page(bool well, const std::string& line);

class HttpPages {
 public:
  // Older than this, and /healthz answers 503: a loop beats once a second, and none of its callbacks runs so long.
  static constexpr Duration kOldestBeat = std::chrono::seconds(5);

  // listen "" = no pages. on_change: problem() or the CPU's has changed; never from within open(). at_rest: on the
  // server's thread, a second after the last reader has left.
  HttpPages(os::Loop& loop, std::string listen, os::HttpServer::Routes routes, std::function<void()> on_change,
            Duration oldest_beat = kOldestBeat, std::function<void()> at_rest = {});
  HttpPages(const HttpPages&) = delete;
  HttpPages& operator=(const HttpPages&) = delete;

  Status open();  // kInvalid where `listen` is not an address
  const std::string& problem() const {
    return problem_;
  }  // why the pages are not served; "" = they are, or none are asked for
  LoopReport loop() const;

 private:
  void try_again();
  void look_at_weight();

  os::Loop& loop_;
  std::string listen_;
  os::HttpServer::Routes routes_;
  std::function<void()> on_change_;
  std::function<void()> at_rest_;
  os::Heartbeat heartbeat_;
  Backoff backoff_;
  os::Timer retry_{loop_};
  std::string problem_;
  os::Timer weight_{loop_};
  std::string cpu_problem_;
  std::unique_ptr<os::HttpServer> server_;  // last: its thread asks the heartbeat
};

}  // namespace tranche::observe
