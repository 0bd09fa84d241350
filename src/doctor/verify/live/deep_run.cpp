// Requests slots that no pod holds, as kubelet would, and tries their limits from inside, GPU by GPU.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_read.h"
#include "base/json_text.h"
#include "base/text.h"
#include "doctor/verify/live/looks.h"
#include "grants/allocate/grant.h"
#include "kubelet/pod_resources.h"
#include "mps/control/control_client.h"
#include "os/socket/status_socket.h"
#include "probe/container.h"

namespace tranche::doctor {
namespace {

using Json = nlohmann::json;

constexpr Duration kAgentAnswer = std::chrono::seconds(10);

struct DeviceAsk {
  Trial trial;
  std::string resource;
  std::string endpoint;            // of the plugin's socket
  std::vector<std::string> slots;  // that no container holds, the last ones first
};

// By kubelet's word, now.
Result<std::set<std::string>> held_slots(const VerifyOptions& options) {
  TRY(const auto holdings, kubelet::list_pod_resources(options.pod_resources_socket, kAgentAnswer));
  std::set<std::string> held;
  for (const auto& holding : holdings) held.insert(holding.slots.begin(), holding.slots.end());
  return held;
}

class DeepRun {
 public:
  DeepRun(const VerifyOptions& options, const VerifyPlaces& places, Probes& probes, Findings& checks)
      : options_(options), places_(places), probes_(probes), checks_(checks) {}

  Status run() {
    TRY(const auto answer, os::ask(options_.run_dir + "/node.sock", "status", kAgentAnswer));
    const Json node = json_of(answer);
    if (!node.is_object())
      return fail(Kind::kInvalid, "the node agent's status is not a JSON document", options_.run_dir);
    TRY(const auto held, held_slots(options_));
    for (const Json& device : list_at(node, "devices")) try_device(device_ask(node, device, held), device);
    if (!map_at(node, "dra").empty())
      checks_.skip("deep", "claims", "a probe cannot take a claim: the scheduler grants them",
                   "run `tranche verify --inside` in a pod with a claim");
    return {};
  }

 private:
  static DeviceAsk device_ask(const Json& node, const Json& device, const std::set<std::string>& held) {
    DeviceAsk ask;
    ask.trial.expected = {text_at(device, "uuid"), count_at(device, "slotMemoryMiB"), count_at(device, "slotSms")};
    ask.resource = text_at(device, "resource");
    for (const Json& resource : list_at(node, "resources"))
      if (text_at(resource, "name") == ask.resource) ask.endpoint = text_at(resource, "endpoint");
    ask.trial.observed = text_at(map_at(map_at(node, "guard"), "memory"), ask.resource) == "observe";
    for (const Json& row : list_at(node, "inForce"))
      if (text_at(row, "promise") == "a client's death hurts no neighbour" && text_at(row, "state") == "no")
        ask.trial.deaths_not_covered = "the node agent reports that deaths are not covered: " + text_at(row, "why");
    for (const Json& slot : list_at(device, "slots")) {
      const std::string id = text_at(slot, "id");
      if (text_at(slot, "holder").empty() && !held.contains(id)) ask.slots.push_back(id);
    }
    // kubelet hands out the first ones first: from the other end a pod that comes meanwhile is less likely met.
    std::ranges::reverse(ask.slots);
    return ask;
  }

  void try_device(DeviceAsk ask, const Json& device) {
    const std::string& gpu = ask.trial.expected.gpu;
    if (text_at(device, "sharing") != "mps")
      return checks_.skip("deep", gpu, "the GPU is not shared by MPS, so it has no limits to test");
    if (ask.slots.empty()) return skip_without_slot(gpu, checks_);
    auto grant = take(ask, ask.slots.front());
    if (!grant)
      return checks_.fail("deep", gpu, "no grant: " + to_string(grant.error()), "see the log of tranche node");
    ask.trial.grant = *std::move(grant);
    if (ask.slots.size() > 1)
      if (auto other = take(ask, ask.slots[1])) ask.trial.neighbour = *std::move(other);
    Findings trials;
    try_grant(probes_, options_, places_, ask.trial, trials);
    const auto held = held_slots(options_);
    const bool taken = !held || std::ranges::any_of(ask.slots, [&, n = 0](const auto& slot) mutable {
      return n++ < 2 && held->contains(slot);
    });
    for (const auto& check : trials)
      if (taken && check.verdict == Verdict::kFail)
        checks_.skip(check.id, check.about, "a pod got the slot in the meantime: " + check.what,
                     "kubectl cordon the node and try again");
      else
        checks_.add(check);
  }

  Result<GrantHere> take(const DeviceAsk& ask, const std::string& slot) {
    const std::string socket = options_.plugin_dir + "/" + ask.endpoint;
    TRY(const auto asked, kubelet::request_grant(socket, {slot}, kAgentAnswer));
    GrantHere grant;
    grant.env = asked.envs;
    const auto mount = asked.mounts.find(grants::kEndpointInContainer);
    if (mount == asked.mounts.end()) return fail(Kind::kInvalid, "the grant has no endpoint", socket);
    grant.endpoint = mount->second;
    if (grant.endpoint.starts_with(places_.mps_root + "/"))
      grant.endpoint = places_.mps_root_here + grant.endpoint.substr(places_.mps_root.size());
    if (ask.trial.expected.gpu.starts_with("GPU-")) grant.env["CUDA_VISIBLE_DEVICES"] = ask.trial.expected.gpu;
    return grant;
  }

  const VerifyOptions& options_;
  const VerifyPlaces& places_;
  Probes& probes_;
  Findings& checks_;
};

}  // namespace

Status try_limits(const VerifyOptions& options, const VerifyPlaces& places, Findings& checks) {
  auto environment = mps::handed_on({options.environment.begin(), options.environment.end()});
  if (!environment.contains("LD_LIBRARY_PATH") && places.driver_root != "/" && !places.driver_root.empty()) {
    std::vector<std::string> folders;
    for (const char* folder : {"/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"})
      folders.push_back(places.driver_root + folder);
    environment["LD_LIBRARY_PATH"] = join(folders, ":");
  }
  TRY(const auto loop, os::Loop::open());
  Probes probes(*loop, std::move(environment), ProbePlace::kOwnNamespace);
  // Below it each probe has its endpoint; where the agent has another run directory it may not be there.
  const bool made = ::mkdir(probe::kRunDirectory, 0755) == 0;
  const Status done = DeepRun(options, places, probes, checks).run();
  if (made) ::rmdir(probe::kRunDirectory);
  return done;
}

}  // namespace tranche::doctor
