#include "observe/pages/http_pages.h"

#include <fmt/format.h>

#include "base/time.h"
#include "observe/metrics/metric_names.h"
#include "observe/metrics/page.h"
#include "os/log/log.h"
#include "os/process/threads.h"

namespace tranche::observe {
namespace {

constexpr int kServiceUnavailable = 503;
constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::seconds(30);
constexpr Duration kWeightEvery = std::chrono::seconds(10);  // a pod may be resized while it runs

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

os::HttpAnswer health_page(Duration age, Duration oldest) {
  if (age <= oldest) return probe_page(true, "ok");
  return probe_page(false, fmt::format("the event loop has not run for {:.1f} s", seconds(age)));
}

// What every program reports of itself, at the moment of the scrape.
LongText own_metrics(Duration age) {
  metrics::Page page;
  page.set("tranche_loop_age_seconds", seconds(age));
  page.set("tranche_log_lines_dropped_total", log::dropped_lines());
  return metrics::to_text(page);
}

}  // namespace

os::HttpAnswer probe_page(bool well, const std::string& line) {
  os::HttpAnswer answer = os::HttpAnswer::text(line + "\n");
  if (!well) answer.status = kServiceUnavailable;
  return answer;
}

HttpPages::HttpPages(os::Loop& loop, std::string listen, os::HttpServer::Routes routes, std::function<void()> on_change,
                     Duration oldest_beat, std::function<void()> at_rest)
    : loop_(loop),
      listen_(std::move(listen)),
      routes_(std::move(routes)),
      on_change_(std::move(on_change)),
      at_rest_(std::move(at_rest)),
      heartbeat_(loop, [] { log::flush(); }),
      backoff_(kFirstPause, kLongestPause, static_cast<std::uint64_t>(loop.now().time_since_epoch().count())) {
  weight_.start(Duration::zero(), [this] { look_at_weight(); });
  routes_["/healthz"] = [this, oldest_beat] { return health_page(heartbeat_.age(), oldest_beat); };
  if (const auto found = routes_.find("/metrics"); found != routes_.end()) {
    found->second = [this, inner = std::move(found->second)] {
      auto answer = inner();
      answer.body += own_metrics(heartbeat_.age());
      return answer;
    };
  }
}

Status HttpPages::open() {
  if (listen_.empty()) return {};
  auto opened = os::HttpServer::open(listen_, routes_, {}, at_rest_);
  if (opened) {
    server_ = *std::move(opened);
    problem_.clear();
    log::info("http.listening", {{"address", server_->address()}});
    return {};
  }
  if (opened.error().kind == Kind::kInvalid) return std::unexpected(std::move(opened).error());
  if (problem_.empty())
    log::warning("http.not_listening", {{"why", opened.error()},
                                        {"effect",
                                         "metrics, health and status pages are not served; everything else "
                                         "works, and the address is tried again"}});
  problem_ = to_string(opened.error());
  retry_.start(backoff_.next(), [this] { try_again(); });
  return {};
}

LoopReport HttpPages::loop() const {
  return {std::chrono::duration_cast<std::chrono::milliseconds>(heartbeat_.worst_lateness()).count(), cpu_problem_};
}

void HttpPages::look_at_weight() {
  weight_.start(next_on_grid(loop_.now(), kWeightEvery) - loop_.now(), [this] { look_at_weight(); });
  const std::string before = std::exchange(cpu_problem_, os::own_cpu_weight_problem());
  if (cpu_problem_ == before) return;
  if (!cpu_problem_.empty()) log::warning("cpu.light", {{"why", cpu_problem_}});
  on_change_();
}

void HttpPages::try_again() {
  const std::string before = problem_;
  if (open() && problem_ != before) on_change_();
}

}  // namespace tranche::observe
