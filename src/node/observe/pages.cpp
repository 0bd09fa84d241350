#include "base/text.h"
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

enum class Follows { kTime, kSnapshots };

// The texts of pages, each as long as it can be asked for again.
class Texts {
 public:
  explicit Texts(const SnapshotBox& snapshots) : snapshots_(snapshots) {}

  // One that is made again when it is older than kFiguresFor; `follows` snapshots: for a new one as well.
  template <class Make>
  auto keep(Follows follows, Make make) {
    auto& text = all_.emplace_back(std::make_shared<std::optional<Text>>());
    return [&snapshots = snapshots_, follows, make, kept = text]() -> const LongText& {
      const auto newest = snapshots.get();
      const MonoTime now = os::mono_now();
      const bool is_of_former = *kept && follows == Follows::kSnapshots && (*kept)->of.lock() != newest;
      if (!*kept || is_of_former || now - (*kept)->at >= kFiguresFor) {
        kept->reset();  // first: the former text is in memory no longer than the next one needs it
        kept->emplace(now, newest, make(*newest, now));
        os::return_free_memory();
      }
      return (*kept)->text;
    };
  }

  std::function<void()> forget() const {
    return [all = all_] {
      for (const auto& text : all) text->reset();
      os::return_free_memory();
    };
  }

 private:
  const SnapshotBox& snapshots_;
  std::vector<std::shared_ptr<std::optional<Text>>> all_;
};

// As a reader gets it, who is counted: the GPUs are measured for readers.
std::vector<gpu::GpuTelemetry> gpus_at(MonoTime now, const NodePages& of) {
  auto round = of.gpus->look(now);
  of.looked();
  return round;
}

}  // namespace

ServedPages node_pages(NodePages of) {
  Texts texts(*of.snapshots);
  const auto node =
      texts.keep(Follows::kSnapshots, [](const Snapshot& s, MonoTime) { return metrics::to_text(metrics_page(s)); });
  const auto live = texts.keep(Follows::kTime, [of](const Snapshot& s, MonoTime now) {
    const auto round = gpus_at(now, of);
    auto page = gpu_metrics(round, now, os::wall_now());
    if (round.empty())
      for (const auto& use : s.use) page.set("tranche_gpu_memory_used_bytes", {use.uuid}, use.used);
    LongText text = metrics::to_text(page);
    text += tenant_metrics(s, *of.tenants->get(), now);
    return text;
  });
  const auto metrics = [node, live](std::string_view) {
    LongText page = node();
    page += live();
    return os::HttpAnswer::metrics(std::move(page));
  };
  const auto status = [text = texts.keep(Follows::kSnapshots, [of](const Snapshot& s, MonoTime now) {
    return network_document(s, *of.tenants->get(), gpus_at(now, of));
  })](std::string_view) { return os::HttpAnswer::json(text()); };
  const auto people = [of, &texts](bool reload) {
    return [page = texts.keep(Follows::kTime, [of, reload](const Snapshot& s, MonoTime now) {
      return html_page(s, *of.tenants->get(), gpus_at(now, of), now, reload);
    })](std::string_view) { return os::HttpAnswer::html(page(), html::policy()); };
  };
  os::HttpServer::Routes routes{{"/", people(false)},
                                {"/live", people(true)},
                                {"/metrics", metrics},
                                {"/readyz", [of](std::string_view) { return ready_page(*of.snapshots->get()); }},
                                {"/status", status}};
  if (of.dcgm_names)
    routes["/metrics/dcgm"] = [page = texts.keep(Follows::kTime, [of](const Snapshot& s, MonoTime now) {
      return dcgm_metrics(s, *of.tenants->get(), gpus_at(now, of));
    })](std::string_view) { return os::HttpAnswer::metrics(page()); };
  return {std::move(routes), texts.forget()};
}

}  // namespace tranche::node
