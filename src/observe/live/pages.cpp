#include "observe/live/pages.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "observe/html/html.h"
#include "observe/live/dcgm_names.h"
#include "observe/live/html_page.h"
#include "observe/live/tenant_metrics.h"
#include "os/clock/clock.h"
#include "programs/node/readiness.h"
#include "programs/node/reports.h"

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

host::HttpServer::Routes node_pages(NodePages of) {
  const auto node = cached(
      *of.snapshots, [](const Snapshot& s) { return host::HttpAnswer::metrics(metrics::to_text(metrics_page(s))); });
  const auto live = for_a_while([of](MonoTime now) {
    const auto round = of.gpus->look(now);
    of.looked();
    const auto snapshot = of.snapshots->get();
    auto page = gpu_metrics(round, now, host::wall_now());
    if (round.empty())
      for (const auto& use : snapshot->use)
        page.set(metrics::kGpuMemoryUsed, {use.uuid}, static_cast<double>(use.used.value));
    return metrics::to_text(page) + tenant_metrics(*snapshot, of.tenants->copy(), now);
  });
  const auto metrics = [node, live] {
    host::HttpAnswer answer = node();
    answer.body += live();
    return answer;
  };
  // Made again for a new snapshot at once, and for newer figures of the same one.
  const auto status = [of, made = std::make_shared<std::pair<std::shared_ptr<const Snapshot>, MonoTime>>(),
                       text = std::make_shared<std::string>()] {
    const auto snapshot = of.snapshots->get();
    const MonoTime now = host::mono_now();
    if (snapshot != made->first || now - made->second >= kFiguresFor) {
      *text = json_text(network_document(*snapshot, of.tenants->copy()));
      *made = {snapshot, now};
    }
    return host::HttpAnswer::json(*text);
  };
  const auto people = [of](bool reload) {
    return [page = for_a_while([of, reload](MonoTime now) {
              const auto round = of.gpus->look(now);
              of.looked();
              return html_page(*of.snapshots->get(), of.tenants->copy(), round, now, reload);
            })] { return host::HttpAnswer::html(page(), html::policy()); };
  };
  host::HttpServer::Routes routes{{"/", people(false)},
                                  {"/live", people(true)},
                                  {"/metrics", metrics},
                                  {"/readyz", cached(*of.snapshots, ready_page)},
                                  {"/status", status}};
  if (of.dcgm_names != DcgmNames::kOff)
    routes["/metrics/dcgm"] = [page = for_a_while([of](MonoTime now) {
                                 const auto round = of.gpus->look(now);
                                 of.looked();
                                 return dcgm_metrics(*of.snapshots->get(), of.tenants->copy(), round, of.dcgm_names);
                               })] { return host::HttpAnswer::metrics(page()); };
  return routes;
}

}  // namespace tranche::agent
