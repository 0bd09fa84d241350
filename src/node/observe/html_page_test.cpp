#include "node/reports.h"

#include <gmock/gmock.h>

#include "node/grants/holders_fixture.h"

namespace tranche::node {
namespace html_page_test {

using namespace fixture;
using ::testing::HasSubstr;
using ::testing::Not;

Snapshot held_by(const std::string& pod) {
  return limited(held_by_a_pod("team", pod), gib(16), Percent{2000});
}

TEST(HtmlPage, ShowsTenantsWithTheirUseAndLimit) {
  guard::Figures figures;
  auto& figure = figures[{grants::grant_id(kSlots), "GPU-0"}];
  figure.used = gib(4);
  figure.peak = gib(5);
  figure.clients = 3;
  gpu::GpuTelemetry gpu;
  gpu.uuid = "GPU-0";
  gpu.activity.sm = 0.47;
  const auto page = html_page(held_by("train"), figures, {gpu}, MonoTime{std::chrono::seconds(2)}).str();
  for (const char* shown :
       {"team/train/main", "4096 of 16384", "<td class=n>5120", "20 %", "SMs active 47 %", "read 2 s ago",
        "aria-label=\"2 of 10 slots held\"", "class=k aria-hidden=true><rect class=t0"})
    EXPECT_THAT(page, HasSubstr(shown));
}

TEST(HtmlPage, AFaultHasWhatToDo) {
  auto snapshot = held_by("train");
  const std::string reason = "XID 79 (the GPU has fallen off the bus): receives no new pods";
  snapshot.faults.devices["GPU-0"] = {gpu::Cause::kXid, reason};
  EXPECT_THAT(html_page(snapshot, {}, {}, MonoTime{}).str(),
              HasSubstr("unhealthy: " + reason + ". What to do: drain the node and reboot it; replace the GPU"));
}

TEST(HtmlPage, WhatIsNotKnownIsNotZero) {
  const auto page = html_page(held_by("train"), {}, {}, MonoTime{}).str();
  EXPECT_THAT(page, HasSubstr("not known of 16384"));
  EXPECT_THAT(page, Not(HasSubstr("<meter")));
}

// Promise: page: Names of pods are text on the page, whatever is in them.
TEST(HtmlPage, HostileNamesStayText) {
  auto snapshot = held_by("</bdi><script>alert(1)</script>\x1b[2J\"'&");
  GuardAct act;
  act.holder = "<img src=x onerror=alert(1)>";
  snapshot.guard.acts.push_back(act);
  const auto page = html_page(snapshot, {}, {}, MonoTime{}).str();
  for (const char* markup : {"<script", "<img", "\x1b"}) EXPECT_THAT(page, Not(HasSubstr(markup)));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(page, HasSubstr("&quot;&#39;&amp;"));
}

TEST(HtmlPage, SaysWhatWaitsAndWhatWasStopped) {
  auto snapshot = held_by("train");
  grants::Step step;
  step.text = "nvidia.com/gpu on GPU 0: 10 → 5 slots";
  step.waits_for = "team/train";
  snapshot.change = {step};
  GuardAct act;
  act.what = guard::Order::What::kTerminate;
  act.outcome = "done";
  act.holder = "team/train/main";
  act.sum = gib(17);
  act.limit = gib(16);
  act.pid = 4711;
  snapshot.guard.acts = {act};
  const auto page = html_page(snapshot, {}, {}, MonoTime{}).str();
  EXPECT_THAT(page, HasSubstr("10 → 5 slots"));
  EXPECT_THAT(page, HasSubstr("terminate (done): team/train/main, 17408 of 16384 MiB"));
  EXPECT_THAT(page, Not(HasSubstr("4711"))) << "no process ids";
}

}  // namespace html_page_test
}  // namespace tranche::node
