#include "observe/cluster/web_program.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>

#include "observe/html/html.h"
#include "observe/web/web.h"
#include "os/clock/clock.h"
#include "os/http/http.h"
#include "os/loop/loop.h"
#include "os/worker/worker.h"

namespace tranche::observe {
namespace {

constexpr std::size_t kSecondsOnly = 19;  // of "2026-01-02T03:04:05.678Z"

// Made on the loop's thread, read on the pages'.
using Latest = os::SharedBox<web::Shown>;

Status look(kube::PersonsAccess& person, const AgentsAsked& asked, Latest& latest) {
  TRY(const auto access, person.get());
  TRY(const auto statuses, agent_statuses(person, asked));
  web::Shown shown;
  shown.server = access.server.url();
  shown.when = os::utc_text(os::wall_now()).substr(0, kSecondsOnly);
  for (const auto& status : statuses)
    shown.nodes.push_back(status.document.empty() ? web::Node{status.node, status.problem}
                                                  : web::make_node(status.node, status.document));
  shown.resources = web::resources_of(shown.nodes);
  latest.put(std::make_shared<const web::Shown>(std::move(shown)));
  return {};
}

int complain(const Error& error) {
  fmt::print(stderr, "tranche web: {}{}\n", to_string(error), remedy_for(error));
  return 1;
}

}  // namespace

int run_web(const WebOptions& options) {
  kube::PersonsAccess person(options.asked.kubeconfig, options.environment);
  const auto access = person.get();
  if (!access) return complain(access.error());
  auto opened = os::Loop::open();
  if (!opened) return complain(opened.error());
  os::Loop& loop = **opened;
  if (const auto watched = loop.on_signals({SIGINT, SIGTERM, SIGHUP}, [&loop](int) { loop.stop(); }); !watched)
    return complain(watched.error());
  Latest latest;
  if (const auto first = look(person, options.asked, latest); !first) return complain(first.error());
  if (options.json) {
    fmt::print("{}\n", web::to_json(*latest.get()));
    return 0;
  }
  const auto server =
      os::HttpServer::open(fmt::format("127.0.0.1:{}", options.port),
                           {{"/", [&latest] { return os::HttpAnswer::html(web::page(*latest.get()), html::policy()); }},
                            {"/cluster.json", [&latest] { return os::HttpAnswer::json(web::to_json(*latest.get())); }}},
                           {.only_own_names = true});
  if (!server) {
    fmt::print(stderr, "tranche web: {}\n  Choose a different --port.\n", to_string(server.error()));
    return 1;
  }
  fmt::print("The page of {} is at http://{}/ until you press Ctrl-C.\n", access->server.url(), (*server)->address());
  std::fflush(stdout);
  std::function<void()> again = [&] {
    if (const auto looked = look(person, options.asked, latest); !looked) {
      web::Shown former = *latest.get();
      former.problem = "the last reading failed, and this page shows the one before it: " + to_string(looked.error());
      latest.put(std::make_shared<const web::Shown>(std::move(former)));
    }
    loop.after(options.interval, again);
  };
  loop.after(options.interval, again);
  loop.run();
  return 0;
}

}  // namespace tranche::observe
