#include "claims_cost.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "standins/kube/api_server.h"
#include "standins/kubelet/dra_kubelet.h"
#include "standins/node/sim_node.h"

namespace tranche::bench {
namespace {

using Json = nlohmann::ordered_json;
using namespace std::chrono_literals;

constexpr const char* kClaims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";
constexpr auto kDeadline = 30s;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

Json figures(std::vector<double>& millis) {
  std::ranges::sort(millis);
  return {{"p50_ms", millis[millis.size() / 2]}, {"p99_ms", millis[millis.size() * 99 / 100]}};
}

double timed(const std::function<void()>& call) {
  const auto began = Clock::now();
  call();
  return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

// Shares of all GPUs in turn; each claim is gone before the next comes.
Json prepare_cost(const Programs& programs, int calls) {
  auto kubelet = sim::DraKubelet::register_driver(programs.registry() + "/gpu.tranche.io-reg.sock");
  if (!kubelet) give_up(to_string(kubelet.error()));
  std::vector<double> prepared, unprepared;
  for (int i = 0; i < calls + calls / 10; ++i) {
    const std::string name = "c" + std::to_string(i);
    const Json result{{"request", "gpu"},
                      {"driver", "gpu.tranche.io"},
                      {"pool", "n1"},
                      {"device", "gpu-" + std::to_string(i % programs.shape().gpus) + "-shared"},
                      {"shareID", "s" + std::to_string(i)},
                      {"consumedCapacity", {{"memory", "6Gi"}, {"cores", "20"}}}};
    const Json claim{{"metadata", {{"uid", "u" + std::to_string(i)}}},
                     {"status", {{"allocation", {{"devices", {{"results", Json::array({result})}}}}}}}};
    programs.api().put(kClaims, name, claim.dump());
    const sim::DraClaimRef ref{"default", name, "u" + std::to_string(i)};
    std::string error;
    const double first = timed([&] {
      const auto answer = (*kubelet)->prepare({ref});
      error = answer ? answer->at(ref.uid).error : to_string(answer.error());
    });
    if (!error.empty()) give_up("a claim is not prepared: " + error);
    const double second = timed([&] {
      const auto answer = (*kubelet)->unprepare({ref});
      error = answer ? answer->at(ref.uid) : to_string(answer.error());
    });
    if (!error.empty()) give_up("a claim is not unprepared: " + error);
    programs.api().remove(kClaims, name);
    if (i < calls / 10) continue;
    prepared.push_back(first);
    unprepared.push_back(second);
  }
  return {{"prepare", figures(prepared)}, {"unprepare", figures(unprepared)}};
}

bool is_tainted(const Programs& programs, int gpu) {
  const auto slice = Json::parse(programs.api().object(kSlices, "00000-gpu.tranche.io-n1"), nullptr, false);
  if (!slice.is_object()) return false;
  for (const auto& device : slice["spec"]["devices"])
    if (device["name"] == "gpu-" + std::to_string(gpu)) return device.contains("taints");
  return false;
}

std::size_t noticed(const Programs& programs) {
  std::ifstream file(programs.node_log());
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) count += line.contains("gpu.xid") ? 1 : 0;
  return count;
}

void until(const std::function<bool()>& condition, const char* what) {
  const auto deadline = Clock::now() + kDeadline;
  while (!condition()) {
    if (Clock::now() > deadline) give_up(what);
    std::this_thread::sleep_for(200us);
  }
}

// One XID on each GPU. The driver is looked at once a second: what counts begins when the agent has logged it.
Json publish_cost(const Programs& programs) {
  auto node = sim::Node::open(programs.simulated_node());
  if (!node) give_up(node.error());
  std::vector<double> millis;
  for (int gpu = 0; gpu < programs.shape().gpus; ++gpu) {
    sim::EventRow event;
    event.gpu = gpu;
    event.kind = sim::EventKind::kXid;
    event.data = 79;
    const auto before = noticed(programs);
    (*node)->raise(event);
    until([&] { return noticed(programs) > before; }, "the agent does not notice an XID");
    millis.push_back(timed([&] { until([&] { return is_tainted(programs, gpu); }, "the slice is not tainted"); }));
  }
  std::ranges::sort(millis);
  return {{"median_ms", millis[millis.size() / 2]}, {"worst_ms", millis.back()}};
}

}  // namespace

Json claims_cost(const Programs& programs, int calls) {
  Json all = prepare_cost(programs, calls);
  all["published"] = publish_cost(programs);
  return all;
}

}  // namespace tranche::bench
