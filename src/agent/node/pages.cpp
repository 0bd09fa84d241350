#include "agent/node/pages.h"

#include <nlohmann/json.hpp>

#include "agent/node/readiness.h"
#include "agent/node/reports.h"
#include "base/json_text.h"

namespace tranche::agent {
namespace {

constexpr int kServiceUnavailable = 503;

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

}  // namespace

host::HttpServer::Routes node_pages(const SnapshotBox& box) {
  const auto metrics = [](const Snapshot& s) { return host::HttpAnswer::metrics(metrics::to_text(metrics_page(s))); };
  const auto status = [](const Snapshot& s) { return host::HttpAnswer::json(json_text(network_document(s))); };
  return {{"/metrics", cached(box, metrics)}, {"/readyz", cached(box, ready_page)}, {"/status", cached(box, status)}};
}

}  // namespace tranche::agent
