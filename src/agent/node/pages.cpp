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

}  // namespace

host::HttpServer::Routes node_pages(const SnapshotBox& box) {
  return {{"/metrics", [&box] { return host::HttpAnswer::metrics(metrics::to_text(metrics_page(*box.get()))); }},
          {"/healthz", [] { return host::HttpAnswer::text("ok\n"); }},
          {"/readyz", [&box] { return ready_page(*box.get()); }},
          {"/status", [&box] { return host::HttpAnswer::json(json_text(status_document(*box.get()))); }}};
}

}  // namespace tranche::agent
