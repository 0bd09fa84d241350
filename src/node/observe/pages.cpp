#include "node/observe/pages.h"

#include "base/long_text.h"
#include "node/observe/tenant_metrics.h"
#include "node/reports.h"
#include "observe/html/html.h"
#include "os/clock/clock.h"
#include "os/memory/memory.h"

namespace tranche::node {
namespace {

constexpr Duration kFiguresFor = std::chrono::seconds(1);  // two scrapers cost no more than one

os::HttpAnswer ready_page(const Snapshot& snapshot) {
  const auto state = readiness(snapshot);
  return observe::probe_page(state.ready, state.message);
}

struct Text {
  MonoTime at{};
  std::weak_ptr<const Snapshot> of;  // weak: a page that is not read any more keeps no old snapshot
  LongText text;
};

// The texts of pages, each as long as it can be asked for again.
class Texts {
 public:
  // One that is made again when it is older than kFiguresFor.
  template <class Make>
  auto for_a_while(Make make) {
    return keep([] { return std::shared_ptr<const Snapshot>(); },
                [make](MonoTime now, const std::shared_ptr<const Snapshot>&) { return make(now); });
  }

  // One that is made again for a new snapshot as well.
  template <class Make>
  auto of_newest(const SnapshotBox& box, Make make) {
    return keep([&box] { return box.get(); },
                [make](MonoTime, const std::shared_ptr<const Snapshot>& newest) { return make(*newest); });
  }

  std::function<void()> forget() const {
    return [all = all_] {
      for (const auto& text : all) text->reset();
      os::return_free_memory();
    };
  }

 private:
  // `newest`: what the text is of; null: of no snapshot.
  template <class Newest, class Make>
  auto keep(Newest newest, Make make) {
    auto& text = all_.emplace_back(std::make_shared<std::optional<Text>>());
    return [newest, make, kept = text]() -> const LongText& {
      const std::shared_ptr<const Snapshot> snapshot = newest();
      const MonoTime now = os::mono_now();
      if (!*kept || (*kept)->of.lock() != snapshot || now - (*kept)->at >= kFiguresFor) {
        kept->reset();  // first: the former text is in memory no longer than the next one needs it
        kept->emplace(now, snapshot, make(now, snapshot));
        os::return_free_memory();
      }
      return (*kept)->text;
    };
  }

  std::vector<std::shared_ptr<std::optional<Text>>> all_;
};

// As a reader gets it, who is counted: the GPUs are measured for readers.
std::vector<gpu::GpuTelemetry> gpus_now(const NodePages& of, MonoTime now = os::mono_now()) {
  auto round = of.gpus->look(now);
  of.looked();
  return round;
}

}  // namespace

ServedPages node_pages(NodePages of) {
  Texts texts;
  const auto node = texts.of_newest(*of.snapshots, [](const Snapshot& s) { return metrics::to_text(metrics_page(s)); });
  const auto live = texts.for_a_while([of](MonoTime now) {
    const auto round = gpus_now(of, now);
    const auto snapshot = of.snapshots->get();
    auto page = gpu_metrics(round, now, os::wall_now());
    if (round.empty())
      for (const auto& use : snapshot->use) page.set("tranche_gpu_memory_used_bytes", {use.uuid}, use.used);
    LongText text = metrics::to_text(page);
    text += tenant_metrics(*snapshot, *of.tenants->get(), now);
    return text;
  });
  const auto metrics = [node, live] {
    LongText page = node();
    page += live();
    return os::HttpAnswer::metrics(std::move(page));
  };
  const auto status = [text = texts.of_newest(*of.snapshots, [of](const Snapshot& s) {
    return network_document(s, *of.tenants->get(), gpus_now(of));
  })] { return os::HttpAnswer::json(text()); };
  const auto people = [of, &texts](bool reload) {
    return [page = texts.for_a_while([of, reload](MonoTime now) {
      const auto round = gpus_now(of, now);
      return html_page(*of.snapshots->get(), *of.tenants->get(), round, now, reload);
    })] { return os::HttpAnswer::html(page(), html::policy()); };
  };
  os::HttpServer::Routes routes{{"/", people(false)},
                                {"/live", people(true)},
                                {"/metrics", metrics},
                                {"/readyz", [of] { return ready_page(*of.snapshots->get()); }},
                                {"/status", status}};
  if (of.dcgm_names)
    routes["/metrics/dcgm"] = [page = texts.for_a_while([of](MonoTime now) {
      const auto round = gpus_now(of, now);
      return dcgm_metrics(*of.snapshots->get(), *of.tenants->get(), round);
    })] { return os::HttpAnswer::metrics(page()); };
  return {std::move(routes), texts.forget()};
}

}  // namespace tranche::node
