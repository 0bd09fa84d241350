#include "base/text.h"
#include "node/observe/tenant_metrics.h"
#include "node/reports.h"
#include "observe/html/html.h"
#include "os/clock/clock.h"
#include "os/memory/memory.h"

namespace tranche::node {
namespace {

constexpr Duration kFiguresFor = std::chrono::seconds(1);  // two scrapers cost no more than one

struct Text {
  MonoTime at{};
  std::weak_ptr<const Snapshot> of;  // weak: a page that is not read any more keeps no old snapshot
  LongText text;
};
using Gpus = std::vector<gpu::GpuTelemetry>;

LongText all_metrics(const Snapshot& s, const guard::Figures& figures, const Gpus& gpus, MonoTime now) {
  auto page = metrics_page(s);
  put_gpu_metrics(page, gpus, now, os::wall_now());
  if (gpus.empty())
    for (const auto& use : s.use) page.set("tranche_gpu_memory_used_bytes", {use.uuid}, use.used);
  LongText text = metrics::to_text(page);
  text += tenant_metrics(s, figures, now);
  return text;
}

}  // namespace

ServedPages node_pages(NodePages of) {
  std::vector<std::shared_ptr<std::optional<Text>>> texts;
  // A page whose text is made again for a new snapshot, and when it is older than kFiguresFor. The GPUs are measured
  // for readers, who are counted.
  const auto kept = [&](auto answer, auto make) {
    return [of, answer, make, kept = texts.emplace_back(std::make_shared<std::optional<Text>>())] {
      const auto newest = of.snapshots->get();
      const MonoTime now = os::mono_now();
      if (!*kept || (*kept)->of.lock() != newest || now - (*kept)->at >= kFiguresFor) {
        kept->reset();  // first: the former text is in memory no longer than the next one needs it
        const auto gpus = of.gpus->look(now);
        of.looked();
        kept->emplace(now, newest, make(*newest, *of.tenants->get(), gpus, now));
        os::return_free_memory();
      }
      return answer((*kept)->text);
    };
  };
  const auto people = [&](bool reload) {
    return kept([](const LongText& text) { return os::HttpAnswer::html(text, html::policy()); },
                [reload](auto&... shown) { return html_page(shown..., reload); });
  };
  const auto of_network = [](const auto& s, const auto& figures, const auto& gpus, MonoTime) {
    return network_document(s, figures, gpus);
  };
  const auto ready = [of] {
    const auto state = readiness(*of.snapshots->get());
    return observe::probe_page(state.ready, state.message);
  };
  os::HttpServer::Routes routes{{"/", people(false)},
                                {"/live", people(true)},
                                {"/metrics", kept(os::HttpAnswer::metrics, all_metrics)},
                                {"/readyz", ready},
                                {"/status", kept(os::HttpAnswer::json, of_network)}};
  if (of.dcgm_names)
    routes["/metrics/dcgm"] = kept(os::HttpAnswer::metrics, [](const auto& s, const auto& figures, const auto& gpus,
                                                               MonoTime) { return dcgm_metrics(s, figures, gpus); });
  return {std::move(routes), [texts] {
            for (const auto& text : texts) text->reset();
            os::return_free_memory();
          }};
}

}  // namespace tranche::node
