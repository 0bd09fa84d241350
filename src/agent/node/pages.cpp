#include "agent/node/pages.h"

#include <nlohmann/json.hpp>

#include "agent/node/readiness.h"
#include "agent/node/reports.h"
#include "agent/node/tenant_metrics.h"
#include "base/json_text.h"
#include "host/clock/clock.h"

namespace tranche::agent {
namespace {

constexpr int kServiceUnavailable = 503;
constexpr Duration kFiguresFor = std::chrono::seconds(1);  // two scrapers cost no more than one

host::HttpAnswer ready_page(const Snapshot& snapshot) {
  const Readiness state = readiness(snapshot);
  host::HttpAnswer answer = host::HttpAnswer::text(state.reason + "\n");
  if (!state.ready) answer.status = kServiceUnavailable;
  return answer;
}

// A page is made again only when the snapshot has changed, so that requests cost next to nothing.
template <class Make>
auto cached(const SnapshotBox& box, Make make) {
  struct Page {
    std::shared_ptr<const Snapshot> of;
    host::HttpAnswer answer;
  };
  return [&box, make, page = std::make_shared<Page>()] {
    if (auto now = box.get(); now != page->of) {
      page->answer = make(*now);
      page->of = std::move(now);
    }
    return page->answer;
  };
}

// A text that is made again only when it is older than kFiguresFor.
template <class Make>
auto for_a_while(Make make) {
  struct Text {
    std::optional<MonoTime> at;
    std::string text;
  };
  return [make, kept = std::make_shared<Text>()]() -> const std::string& {
    const MonoTime now = host::mono_now();
    if (!kept->at || now - *kept->at >= kFiguresFor) {
      kept->text = make(now);
      kept->at = now;
    }
    return kept->text;
  };
}

}  // namespace

host::HttpServer::Routes node_pages(const SnapshotBox& box, const guard::SharedFigures& figures) {
  const auto node =
      cached(box, [](const Snapshot& s) { return host::HttpAnswer::metrics(metrics::to_text(metrics_page(s))); });
  const auto tenants =
      for_a_while([&box, &figures](MonoTime now) { return tenant_metrics(*box.get(), figures.copy(), now); });
  const auto metrics = [node, tenants] {
    host::HttpAnswer answer = node();
    answer.body += tenants();
    return answer;
  };
  const auto status = [](const Snapshot& s) { return host::HttpAnswer::json(json_text(network_document(s))); };
  return {{"/metrics", metrics}, {"/readyz", cached(box, ready_page)}, {"/status", cached(box, status)}};
}

}  // namespace tranche::agent
