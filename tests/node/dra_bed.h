#pragma once
// A node whose agent serves claims: kubelet's double prepares and unprepares them, the API server's stand-in has them.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "node/bed.h"
#include "standins/kube/api_server.h"
#include "standins/kubelet/dra_kubelet.h"

namespace tranche::e2e {

namespace fs = std::filesystem;

inline constexpr const char* kClaims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
inline constexpr const char* kDriver = "gpu.tranche.io";
inline constexpr const char* kShareId = "a671734a-e8e5-11e4-8fde-42010af09327";

inline Json result(const std::string& request, const std::string& device, const Json& more) {
  Json json{{"request", request}, {"driver", kDriver}, {"pool", "n1"}, {"device", device}};
  json.update(more);
  return json;
}

inline Json share(const std::string& request, const std::string& memory, const std::string& cores,
                  const std::string& id = kShareId, const std::string& device = "gpu-0-shared") {
  return result(request, device, {{"shareID", id}, {"consumedCapacity", {{"memory", memory}, {"cores", cores}}}});
}

// As the controller and the scheduler write into a claim that is made from a template.
inline Json owned_by(const std::string& pod) {
  const Json owner{{"kind", "Pod"}, {"name", pod}, {"uid", "uid-" + pod}, {"controller", true}};
  const Json reserved{{"resource", "pods"}, {"name", pod}, {"uid", "uid-" + pod}};
  return {{"metadata", {{"ownerReferences", Json::array({owner})}}},
          {"status", {{"reservedFor", Json::array({reserved})}}}};
}

// Null where the document has none: an agent that has just started.
inline Json dra_of(const Json& status, const std::string& key) {
  return status.value("dra", Json::object()).value(key, Json());
}

class NodeDra : public NodeBed {
 protected:
  NodeDra() : api_(sim::ApiServer::start()) {
    api_->serve_collection(kClaims);
    api_->serve_collection("/apis/resource.k8s.io/v1/resourceslices");
  }

  void start_with(int gpus, const std::string& dra = "devices: all") {
    ASSERT_NO_FATAL_FAILURE(make_node(gpus));
    ASSERT_NO_FATAL_FAILURE(start_on_node(dra.contains("span") ? 1 : gpus, dra));
  }
  void start_on_node(int pools, const std::string& dra, const std::string& more = "") {
    ASSERT_NO_FATAL_FAILURE(start_programs("version: v1\ndra: {" + dra + "}\n" + more));
    until_serving(static_cast<std::size_t>(pools));
    ASSERT_NO_FATAL_FAILURE(register_driver());
  }
  void start_programs(const std::string& config) {
    fs::create_directory(in("plugins_registry"));
    write("config.yaml", config);
    write("token", "secret-token");
    write("kubeconfig", api_->kubeconfig(in("token")));
    ASSERT_NO_FATAL_FAILURE(start_kubelet());
    start_mps();
    start_agent();
  }
  Program& start_agent(const std::string& pod_uid = "") {
    Strings words{"--kubeconfig", in("kubeconfig"), "--cdi-root", in("cdi")};
    words.insert(words.end(), more_.begin(), more_.end());
    return start_tranche("node", words, {{"NODE_NAME", "n1"}, {"POD_UID", pod_uid}});
  }
  // Killed, and started again after what happens in between.
  void restart_agent(const std::function<void()>& meanwhile = [] {}) {
    stop(*program("node"), SIGKILL, 128 + SIGKILL);
    meanwhile();
    start_agent();
    ASSERT_NO_FATAL_FAILURE(register_driver());
  }
  std::set<std::string> registrations() {
    std::set<std::string> names;
    for (const auto& each : fs::directory_iterator(in("plugins_registry"))) names.insert(each.path().filename());
    std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });  // kubelet skips these too
    return names;
  }
  // The owner of the slices.
  void put_node_object() {
    api_->put("/api/v1/nodes", "n1", R"({"metadata":{"uid":"node-uid"},"status":{"conditions":[]}})");
  }
  void register_driver() {
    until_node([](const Json& s) { return dra_of(s, "serving") == true; });
    auto registered = sim::DraKubelet::register_driver(in("plugins_registry/gpu.tranche.io-reg.sock"));
    ASSERT_TRUE(registered) << to_string(registered.error());
    kubelet_dra_ = *std::move(registered);
    until_node([](const Json& s) { return dra_of(s, "registered") == true; });
  }
  sim::DraClaimRef put_claim(const std::string& name, const std::vector<Json>& results, const Json& more = {}) {
    Json claim{{"metadata", {{"uid", "uid-" + name}}},
               {"status", {{"allocation", {{"devices", {{"results", results}}}}}}}};
    claim.merge_patch(more.is_null() ? Json::object() : more);
    api_->put(kClaims, name, claim.dump());
    return {"default", name, "uid-" + name};
  }
  sim::DraPrepared asked_once(const sim::DraClaimRef& claim) {
    const auto answer = kubelet_dra_->prepare({claim});
    EXPECT_TRUE(answer) << to_string(answer.error());
    if (!answer || !answer->contains(claim.uid)) return {{}, "no answer"};
    return answer->at(claim.uid);
  }
  std::string unprepare(const sim::DraClaimRef& claim) {
    const auto answer = kubelet_dra_->unprepare({claim});
    EXPECT_TRUE(answer) << to_string(answer.error());
    return answer && answer->contains(claim.uid) ? answer->at(claim.uid) : "no answer";
  }
  // As kubelet repeats it: an agent that has just started does not know yet which GPUs there are, which slots pods
  // hold, nor the API server.
  sim::DraPrepared prepare(const sim::DraClaimRef& claim) {
    sim::DraPrepared prepared;
    until(
        [&] {
          prepared = asked_once(claim);
          return !prepared.error.ends_with("kubelet asks again");
        },
        claim.name + " to be prepared or refused");
    return prepared;
  }
  bool until_prepared(sim::DraKubelet& kubelet, const sim::DraClaimRef& claim) {
    return until(
        [&] {
          const auto answer = kubelet.prepare({claim});
          return answer && answer->at(claim.uid).error.empty();
        },
        claim.name + " to be prepared");
  }
  Json spec_of(const sim::DraClaimRef& claim) {
    std::ifstream file(spec_path(claim));
    return Json::parse(file, nullptr, false);
  }
  std::string spec_path(const sim::DraClaimRef& claim) { return in("cdi/gpu.tranche.io-claim_" + claim.uid + ".json"); }
  // What a container gets by the claim's devices, as the runtime reads the specification.
  sim::ContainerGrant container_of(const sim::DraClaimRef& claim, std::size_t device = 0) {
    sim::ContainerGrant grant;
    const Json edits = spec_of(claim)["devices"][device]["containerEdits"];
    for (const auto& entry : edits.value("env", Json::array())) {
      const auto text = entry.get<std::string>();
      grant.envs[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
    }
    for (const auto& mount : edits.value("mounts", Json::array()))
      grant.mounts.push_back({mount["containerPath"], mount["hostPath"], true});
    return grant;
  }
  Json devices_in_status(const std::string& name) {
    const auto object = Json::parse(api_->object(kClaims, name), nullptr, false);
    return object.value(Json::json_pointer("/status/devices"), Json::array());
  }
  static Json condition_of(const Json& device, const std::string& type) {
    for (const auto& condition : device.value("conditions", Json::array()))
      if (condition["type"] == type) return condition;
    return {{"status", ""}};
  }
  bool until_status_says(const std::string& name, const std::string& type, const std::string& value) {
    return until(
        [&] {
          const auto devices = devices_in_status(name);
          return !devices.empty() && condition_of(devices[0], type)["status"] == value;
        },
        type + " " + value + " in the status of " + name);
  }
  std::size_t status_writes() {
    return std::ranges::count_if(api_->requests(),
                                 [](const auto& each) { return each.content_type == "application/apply-patch+yaml"; });
  }
  std::size_t claim_reads() {
    return std::ranges::count_if(api_->requests(), [](const auto& each) {
      return each.method == "GET" && each.path.starts_with(kClaims) && each.path != kClaims;
    });
  }
  void lose_records() {
    ASSERT_TRUE(fs::exists(in("run/claims.txt")));
    write("run/claims.txt", "");
  }
  // Everything ends at once, and what is in /run is gone afterwards.
  void reboot(std::size_t pools) {
    for (const char* name : {"node", "mps"}) stop(*program(name), SIGKILL, 128 + SIGKILL);
    for (const auto pid : processes()) {
      std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
      std::string name;
      if (std::getline(comm, name) && name.starts_with("nvidia-cuda")) ::kill(pid, SIGKILL);
    }
    for (const char* name : {"run/claims.txt", "run/grants.txt", "run/node.sock", "cdi", "mps"})
      fs::remove_all(in(name));
    fs::create_directory(in("mps"));
    fs::remove(in("plugins_registry/gpu.tranche.io-reg.sock"));
    start_mps();
    start_agent();
    until_serving(pools);
    ASSERT_NO_FATAL_FAILURE(register_driver());
  }
  std::size_t endpoints() {
    std::size_t count = 0;
    for (const auto& pool : fs::directory_iterator(in("mps/pools")))
      for ([[maybe_unused]] const auto& each : fs::directory_iterator(pool.path() / "endpoints")) ++count;
    return count;
  }

  std::unique_ptr<sim::ApiServer> api_;
  std::unique_ptr<sim::DraKubelet> kubelet_dra_;
  Strings more_;  // of the agent's command line
};

}  // namespace tranche::e2e
