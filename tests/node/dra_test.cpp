// Claims of Dynamic Resource Allocation on the real programs: kubelet's double prepares and unprepares them, the API
// server's stand-in has them, CUDA programs run in what they get.
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <set>

#include "dra/prepared_fixture.h"
#include "node/dra_bed.h"

namespace tranche::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Promise: dra/prepare: A claim of memory and cores has an endpoint whose clients are held to both.
TEST_F(NodeDra, AClaimOf6GiBAndAFifthIsPreparedAndItsProcessIsHeldToThem) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  const auto prepared = prepare(claim);
  ASSERT_EQ(prepared.error, "");
  ASSERT_THAT(prepared.devices, SizeIs(1));
  EXPECT_THAT(prepared.devices[0].requests, ElementsAre("gpu"));
  EXPECT_EQ(prepared.devices[0].pool, "n1");
  EXPECT_EQ(prepared.devices[0].device, "gpu-0-shared");
  EXPECT_EQ(prepared.devices[0].share_id, kShareId);
  EXPECT_THAT(prepared.devices[0].cdi_ids,
              ElementsAre(std::string("gpu.tranche.io/claim=uid-six-gpu-gpu-0-shared-") + kShareId));

  const auto spec = spec_of(claim);
  EXPECT_EQ(spec["kind"], "gpu.tranche.io/claim");
  const auto grant = container_of(claim);
  EXPECT_EQ(grant.envs.at("NVIDIA_VISIBLE_DEVICES"), uuid(0));
  EXPECT_EQ(grant.envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), uuid(0) + "=6144M");
  EXPECT_TRUE(fs::exists(endpoint_of(grant) + "/control")) << endpoint_of(grant);

  EXPECT_EQ(prepare(claim), prepared) << "asked again, the answer is the same";
  EXPECT_EQ(endpoints(), 1u);

  Program& cuda = start_cuda(grant, {"--hold"});
  const auto context = attached(cuda);
  EXPECT_EQ(context["mps"], true);
  EXPECT_EQ(context["limit"].get<std::uint64_t>() >> 20, 6144u);
  EXPECT_EQ(context["runs_on"], 30) << "26 of 132 SMs, rounded up to a count that is trusted";
  stop(cuda, SIGTERM, 128 + SIGTERM);

  EXPECT_EQ(unprepare(claim), "");
  EXPECT_FALSE(fs::exists(spec_path(claim)));
  EXPECT_EQ(endpoints(), 0u);
  until_node([](const Json& s) { return dra_of(s, "claims").empty(); });
  EXPECT_EQ(unprepare(claim), "") << "of a claim that is not known any more";
}

TEST_F(NodeDra, ARestartOfTheAgentKeepsClaimsAndTheirClients) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  const auto prepared = prepare(claim);
  ASSERT_EQ(prepared.error, "");
  Program& cuda = start_cuda(container_of(claim), {"--hold"});
  ASSERT_EQ(attached(cuda)["mps"], true);
  const auto spec = spec_of(claim);

  stop(*program("node"), SIGKILL, 128 + SIGKILL);
  fs::remove_all(in("cdi"));  // as a restart of the node empties it
  start_agent();
  ASSERT_NO_FATAL_FAILURE(register_driver());
  EXPECT_TRUE(until([&] { return fs::exists(spec_path(claim)); }, "the specification"));
  EXPECT_EQ(spec_of(claim), spec);
  EXPECT_EQ(prepare(claim), prepared);
  EXPECT_TRUE(cuda.running());

  // A container that is started again is not prepared again: a lost file comes back by itself.
  fs::remove(spec_path(claim));
  EXPECT_TRUE(until([&] { return fs::exists(spec_path(claim)); }, "the specification"));
  EXPECT_EQ(spec_of(claim), spec);
  stop(cuda, SIGTERM, 128 + SIGTERM);
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_EQ(endpoints(), 0u);
}

// Promise: dra/status: What is enforced stands in the claim's status.devices, and follows faults of GPU and pool.
TEST_F(NodeDra, AClaimsStatusHasWhatIsEnforcedAndFollowsFaults) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  ASSERT_EQ(prepare(claim).error, "");
  ASSERT_TRUE(until_status_says("six", "LimitsEnforced", "True"));
  const Json device = devices_in_status("six")[0];
  EXPECT_EQ(device["device"], "gpu-0-shared");
  EXPECT_EQ(device["shareID"], kShareId);
  EXPECT_EQ(device["data"],
            (Json{{"gpu", uuid(0)}, {"kind", "shared"}, {"memoryBytes", 6ull << 30}, {"sms", 30}, {"cores", 20}}));
  const Json ready = condition_of(device, "Ready");
  EXPECT_EQ(ready["status"], "True");
  EXPECT_EQ(ready["message"], "at most 6144 MiB and 30 SMs of " + uuid(0));

  // A new agent finds what it wrote, and writes nothing.
  const auto before = status_writes(), reads = claim_reads();
  stop(*program("node"), SIGTERM, 0);
  start_agent();
  ASSERT_NO_FATAL_FAILURE(register_driver());
  ASSERT_TRUE(until([&] { return claim_reads() > reads; }, "the agent to read the claim"));

  sim_node({"gpu", "0", "lost"});
  ASSERT_TRUE(until_status_says("six", "Ready", "False"));
  EXPECT_EQ(condition_of(devices_in_status("six")[0], "Ready")["reason"], "Unhealthy");
  EXPECT_EQ(status_writes(), before + 1) << "only the fault";
  sim_node({"gpu", "0", "back"});
  ASSERT_TRUE(until_status_says("six", "Ready", "True"));

  stop(*program("mps"), SIGTERM, 0);
  ASSERT_TRUE(until_status_says("six", "LimitsEnforced", "False"));
  start_mps();
  ASSERT_TRUE(until_status_says("six", "LimitsEnforced", "True"));

  // A claim that stays allocated, for a later pod, does not go on reporting limits.
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_TRUE(until([&] { return devices_in_status("six").empty(); }, "no entry"));
  ASSERT_EQ(prepare(claim).error, "");
  EXPECT_TRUE(until_status_says("six", "LimitsEnforced", "True"));
}

// Promise: dra/prepare: A claim of a MIG device gets it with the device nodes that open its instances, and no other.
TEST_F(NodeDra, AClaimOfAMigDeviceGetsItsNodes) {
  ASSERT_NO_FATAL_FAILURE(make_node(2));
  sim_node({"gpu", "0", "mig", "3g.71gb", "1g.18gb", "1g.18gb"});
  put_node_object();
  // As the driver writes it: minors of the nodes for each instance.
  fs::create_directories(in("root/proc/driver/nvidia-caps"));
  std::ofstream table(in("root/proc/driver/nvidia-caps/mig-minors"));
  for (int instance = 0; instance < 15; ++instance)
    table << "gpu0/gi" << instance << "/access " << 100 + 2 * instance << "\ngpu0/gi" << instance << "/ci0/access "
          << 101 + 2 * instance << "\n";
  table.close();
  more_ = {"--system-root", in("root")};
  ASSERT_NO_FATAL_FAILURE(start_on_node(1, "devices: all", "flags: {plugin: {passDeviceSpecs: true}}\n"));
  until_node([](const Json& s) { return dra_of(s, "slices")["state"] == "published"; });
  const auto slices = Json::parse(api_->object("/apis/resource.k8s.io/v1/resourceslices", "00000-gpu.tranche.io-n1"));
  std::vector<Json> migs;
  for (const auto& device : slices["spec"]["devices"]) {
    EXPECT_NE(device["name"], "gpu-0") << "in MIG mode";
    if (device["attributes"]["type"]["string"] == "mig") migs.push_back(device);
  }
  ASSERT_THAT(migs, SizeIs(3));
  EXPECT_EQ(migs[0]["attributes"]["parentUUID"]["string"], uuid(0));

  const auto claim = put_claim("mig", {result("gpu", migs[1]["name"], Json::object())});
  const auto prepared = prepare(claim);
  ASSERT_EQ(prepared.error, "");
  const std::string mig = migs[1]["attributes"]["uuid"]["string"];
  EXPECT_THAT(prepared.devices[0].cdi_ids,
              ElementsAre("gpu.tranche.io/claim=uid-mig-gpu-" + migs[1]["name"].get<std::string>()));
  std::vector<std::string> nodes;
  const Json spec = spec_of(claim);
  for (const auto& node : spec["devices"][0]["containerEdits"]["deviceNodes"]) nodes.push_back(node["path"]);
  EXPECT_THAT(nodes, ::testing::Contains("/dev/nvidia0"));
  EXPECT_THAT(nodes, ::testing::Not(::testing::Contains("/dev/nvidia1")));
  EXPECT_EQ(std::ranges::count_if(nodes, [](const auto& node) { return node.starts_with("/dev/nvidia-caps/"); }), 2);
  EXPECT_EQ(container_of(claim).envs.at("NVIDIA_VISIBLE_DEVICES"), mig);
  EXPECT_EQ(endpoints(), 0u);
  EXPECT_TRUE(until_status_says("mig", "Ready", "True"));
  EXPECT_THAT(prepare(put_claim("second", {result("gpu", migs[2]["name"], Json::object())})).error, "");

  // It outlives a restart, and is freed.
  ASSERT_NO_FATAL_FAILURE(restart_agent());
  EXPECT_EQ(prepare(claim), prepared);
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_EQ(prepare(put_claim("next", {result("gpu", migs[1]["name"], Json::object())})).error, "");
}

TEST_F(NodeDra, AStatusThatCannotBeWrittenHoldsNothingUpAndIsReported) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto is_status = [](const sim::ApiRequest& request) {
    return request.path.starts_with(kClaims) && request.path.find("/status") != std::string::npos;
  };
  api_->refuse(1, 500, "{}", is_status);
  const auto first = put_claim("first", {share("gpu", "6Gi", "20", "s-1")});
  EXPECT_EQ(prepare(first).error, "");
  EXPECT_TRUE(until_status_says("first", "LimitsEnforced", "True")) << "tried again";
  const std::string refusal =
      R"({"kind": "Status", "code": 422, "message": "cannot associated-node:patch resourceclaims/driver"})";
  api_->refuse(1, 422, refusal, is_status);
  const auto second = put_claim("second", {share("gpu", "6Gi", "20", "s-2")});
  EXPECT_EQ(prepare(second).error, "");
  const auto status = until_node([](const Json& s) { return !dra_of(s, "statusProblem").get<std::string>().empty(); });
  EXPECT_THAT(
      dra_of(status, "statusProblem").get<std::string>(),
      AllOf(HasSubstr("default/second"), HasSubstr("associated-node:patch"), HasSubstr("deploy/rbac/dra.yaml")));
  EXPECT_EQ(unprepare(second), "");
  EXPECT_EQ(unprepare(first), "");
}

// Promise: dra/prepare: After a reboot of the node, which empties /run, a claim is prepared as before.
TEST_F(NodeDra, ARebootOfTheNodePreparesClaimsAsBefore) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  const auto gone = put_claim("gone", {share("gpu", "6Gi", "20", "s-2")});
  const auto prepared = prepare(claim);
  ASSERT_EQ(prepared.error, "");
  ASSERT_EQ(prepare(gone).error, "");
  const auto spec = spec_of(claim);

  ASSERT_NO_FATAL_FAILURE(reboot(1));
  EXPECT_EQ(prepare(claim), prepared) << "kubelet prepares for new sandboxes";
  EXPECT_EQ(spec_of(claim), spec);
  EXPECT_EQ(endpoints(), 1u);
  Program& cuda = start_cuda(container_of(claim), {"--hold"});
  EXPECT_EQ(attached(cuda)["limit"].get<std::uint64_t>() >> 20, 6144u);
  stop(cuda, SIGTERM, 128 + SIGTERM);
  EXPECT_EQ(unprepare(gone), "") << "its pod ended with the node";
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_EQ(endpoints(), 0u);
}

// As if the files of the agent were on a disk, and the node had rebooted since they were written.
void record_a_former_boot(const std::string& records, const std::string& specs) {
  const auto with_former_boot = [](const std::string& text) {
    auto claims = dra::parse_prepared(text).claims;
    for (auto& [uid, claim] : claims) claim.boot = "a-former-boot";
    return dra::render_prepared(claims);
  };
  const auto rewrite = [](const std::string& path, const auto& change) {
    std::ifstream file(path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::ofstream(path) << change(text);
  };
  rewrite(records, with_former_boot);
  for (const auto& each : fs::directory_iterator(specs)) {
    rewrite(each.path(), [&](const std::string& text) {
      Json spec = Json::parse(text);
      Json& env = spec["devices"].back()["containerEdits"]["env"][0];
      const auto entry = env.get<std::string>();
      const auto record = entry.find('=') + 1;
      const auto changed = with_former_boot(entry.substr(record) + "\n");
      env = entry.substr(0, record) + changed.substr(0, changed.size() - 1);
      return spec.dump();
    });
  }
}

// Each write is one rename, so these are the states that an agent leaves which is killed while it forgets the claims.
// Promise: dra/prepare: After a reboot, only claims that kubelet prepares again hold a part of a GPU.
TEST_F(NodeDra, ClaimsFromBeforeAReboot) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto stays = put_claim("stays", {share("gpu", "6Gi", "20")});
  const auto gone = put_claim("gone", {share("gpu", "6Gi", "80", "s-2")});
  for (const char* killed : {"before the first write", "after one specification", "after all", "with a lost record"}) {
    SCOPED_TRACE(killed);
    ASSERT_EQ(prepare(stays).error, "");
    ASSERT_EQ(prepare(gone).error, "");
    stop(*program("node"), SIGKILL, 128 + SIGKILL);
    record_a_former_boot(in("run/claims.txt"), in("cdi"));
    const std::string state = killed;
    if (state.starts_with("after")) fs::remove(spec_path(gone));
    if (state == "after all") fs::remove(spec_path(stays));
    if (state == "with a lost record") lose_records();
    Program& agent = start_agent();
    ASSERT_TRUE(until_says(agent, "claims.forgotten"));
    ASSERT_NO_FATAL_FAILURE(register_driver());
    until_node([](const Json& s) { return dra_of(s, "claims").empty(); });
    EXPECT_EQ(fs::file_size(in("run/claims.txt")), 0U);
    EXPECT_TRUE(fs::is_empty(in("cdi")));
    ASSERT_EQ(prepare(stays).error, "") << "kubelet prepares for new sandboxes";
    ASSERT_EQ(prepare(put_claim("later", {share("gpu", "6Gi", "80", "s-3")})).error, "") << "in the other's place";
    ASSERT_NO_FATAL_FAILURE(restart_agent());
    until_node([](const Json& s) { return dra_of(s, "claims").size() == 2; });
    for (const auto& claim : {stays, gone, sim::DraClaimRef{"default", "later", "uid-later"}})
      EXPECT_EQ(unprepare(claim), "") << claim.name;
    drop_ended();
  }
}

TEST_F(NodeDra, ForgedClaimsAreRefusedAloneAndLeaveNothing) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto good = put_claim("good", {share("gpu", "6Gi", "20")});
  const auto negative = put_claim("negative", {share("gpu", "-6Gi", "20")});
  const auto gone = put_claim("gone", {share("gpu", "6Gi", "20", kShareId, "gpu-7-shared")});
  const sim::DraClaimRef unknown{"default", "unknown", "uid-unknown"};
  auto renewed = put_claim("renewed", {share("gpu", "6Gi", "20")});
  renewed.uid = "uid-of-before";
  const auto answer = kubelet_dra_->prepare({negative, good, gone, unknown, renewed});
  ASSERT_TRUE(answer) << to_string(answer.error());
  ASSERT_THAT(*answer, SizeIs(5));
  EXPECT_EQ(answer->at(good.uid).error, "");
  EXPECT_THAT(
      answer->at(negative.uid).error,
      HasSubstr("results[0].consumedCapacity[\"memory\"] cannot be used: \"-6Gi\" is negative; delete the claim"));
  EXPECT_THAT(answer->at(gone.uid).error, HasSubstr("device gpu-7-shared is not on this node any more"));
  EXPECT_THAT(answer->at(unknown.uid).error, HasSubstr("the claim is not in the API server any more"));
  EXPECT_THAT(answer->at(renewed.uid).error, HasSubstr("the claim was deleted and created again"));
  EXPECT_EQ(endpoints(), 1u);
  const auto files = fs::directory_iterator(in("cdi"));
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  for (const auto& each : {good, negative, gone, unknown, renewed}) EXPECT_EQ(unprepare(each), "");
  EXPECT_EQ(endpoints(), 0u);
}

// Promise: dra/prepare: A claim waits for the end of one that holds its room, as after a forced deletion.
TEST_F(NodeDra, AClaimWaitsForTheUnprepareOfTheOneThatHoldsItsRoom) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto first = put_claim("first", {share("gpu", "100Gi", "60", "s-1")});
  const auto second = put_claim("second", {share("gpu", "100Gi", "60", "s-2")});
  ASSERT_EQ(prepare(first).error, "");
  auto waiting = std::async(std::launch::async, [&] { return kubelet_dra_->prepare({second}); });
  ASSERT_TRUE(until_says(*program("node"), "claim.waits"));
  EXPECT_EQ(endpoints(), 1u);
  EXPECT_EQ(unprepare(first), "");
  const auto answer = waiting.get();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at(second.uid).error, "");
  EXPECT_EQ(endpoints(), 1u);
}

// Promise: dra/prepare: With `dra.split: span` a container gets every GPU of its request, by one endpoint.
TEST_F(NodeDra, ARequestWithTwoGpusHasBothByOneEndpointWhereOneDaemonServesThem) {
  ASSERT_NO_FATAL_FAILURE(start_with(2, "devices: all, split: span"));
  const auto shares =
      put_claim("shares", {share("gpu", "6Gi", "20", "s-1"), share("gpu", "4Gi", "20", "s-2", "gpu-1-shared")});
  const auto prepared = prepare(shares);
  ASSERT_EQ(prepared.error, "");
  ASSERT_THAT(prepared.devices, SizeIs(2));
  EXPECT_EQ(endpoints(), 1u);
  const auto grant = container_of(shares, 0);
  EXPECT_EQ(grant.envs, container_of(shares, 1).envs) << "a container gets both devices, in an order of kubelet's";
  EXPECT_EQ(grant.envs.at("NVIDIA_VISIBLE_DEVICES"), uuid(0) + "," + uuid(1));
  EXPECT_EQ(grant.envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), uuid(0) + "=6144M," + uuid(1) + "=4096M");
  Program& cuda = start_cuda(grant, {"--hold"});
  EXPECT_EQ(attached(cuda)["mps"], true);
  const auto status =
      until_node([](const Json& s) { return s["grants"].size() == 1 && s["grants"][0]["devices"].size() == 2; });
  EXPECT_EQ(status["grants"][0]["devices"][1]["memoryMiB"], 4096);
  EXPECT_EQ(prepare(shares), prepared);
  ASSERT_NO_FATAL_FAILURE(restart_agent());
  EXPECT_EQ(prepare(shares), prepared);
  EXPECT_EQ(endpoints(), 1u);
  stop(cuda, SIGTERM, 128 + SIGTERM);
  EXPECT_EQ(unprepare(shares), "");
  EXPECT_EQ(endpoints(), 0u);
  const auto all = put_claim("all", {result("gpu", "gpu-1", Json::object()), result("gpu", "gpu-0", Json::object())});
  ASSERT_EQ(prepare(all).error, "");
  EXPECT_EQ(endpoints(), 1u);
  EXPECT_EQ(container_of(all).envs.at("NVIDIA_VISIBLE_DEVICES"), uuid(0) + "," + uuid(1)) << "in driver order";
  EXPECT_EQ(unprepare(all), "");
  EXPECT_EQ(endpoints(), 0u);
}

TEST_F(NodeDra, AWholeGpuHasAnEndpointWithoutLimitsAndExcludesSharesButNotMonitors) {
  ASSERT_NO_FATAL_FAILURE(start_with(2));
  const auto whole = put_claim("whole", {result("gpu", "gpu-1", Json::object())});
  ASSERT_EQ(prepare(whole).error, "");
  const auto grant = container_of(whole);
  EXPECT_EQ(grant.envs.count("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), 0u);
  Program& cuda = start_cuda(grant, {"--hold"});
  const auto context = attached(cuda);
  EXPECT_EQ(context["mps"], true);
  EXPECT_EQ(context["gpu"], uuid(1));
  EXPECT_EQ(context["runs_on"], 132);
  const auto monitor =
      put_claim("monitor", {result("gpu", "gpu-1-monitor", {{"shareID", "s-1"}, {"adminAccess", true}})});
  ASSERT_EQ(prepare(monitor).error, "");
  const auto shown = container_of(monitor);
  EXPECT_EQ(shown.envs.at("NVIDIA_VISIBLE_DEVICES"), uuid(1));
  EXPECT_EQ(shown.envs.count("CUDA_MPS_PIPE_DIRECTORY"), 0u);
  EXPECT_EQ(endpoints(), 1u);
  stop(cuda, SIGTERM, 128 + SIGTERM);
  EXPECT_EQ(unprepare(whole), "");
  EXPECT_EQ(unprepare(monitor), "");
}

// Promise: dra/prepare: A GPU that is claimed as a whole gives each process what the claim's MPS configuration says.
TEST_F(NodeDra, AnMpsConfigurationLimitsEachProcessAndNotTheirSum) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto configured = [](const Json& sharing) {
    const Json parameters{{"apiVersion", "resource.nvidia.com/v1beta1"}, {"kind", "GpuConfig"}, {"sharing", sharing}};
    const Json config{{"source", "FromClaim"}, {"opaque", {{"driver", kDriver}, {"parameters", parameters}}}};
    return Json{{"status", {{"allocation", {{"devices", {{"config", Json::array({config})}}}}}}}};
  };
  const Json whole = result("gpu", "gpu-0", Json::object());
  Json sharing{{"strategy", "MPS"},
               {"mpsConfig", {{"defaultActiveThreadPercentage", 50}, {"defaultPinnedDeviceMemoryLimit", "80Gi"}}}};
  const auto claim = put_claim("mps", {whole}, configured(sharing));
  const auto prepared = prepare(claim);
  ASSERT_EQ(prepared.error, "");
  const auto grant = container_of(claim);
  EXPECT_EQ(grant.envs.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), uuid(0) + "=81920M");
  Program& first = start_cuda(grant, {"--hold"});
  const auto context = attached(first);
  EXPECT_EQ(context["limit"], std::uint64_t{80} << 30);
  EXPECT_EQ(context["runs_on"], 66);
  const auto status = until_node([](const Json& s) { return dra_of(s, "claims").size() == 1; });
  const Json part = dra_of(status, "claims")[0]["parts"][0];
  EXPECT_EQ(part["process"]["memoryMiB"], 81920);
  EXPECT_EQ(part["memoryMiB"], 0) << "their sum";
  ASSERT_NO_FATAL_FAILURE(restart_agent([&] { fs::remove(spec_path(claim)); }));
  EXPECT_EQ(prepare(claim), prepared);
  EXPECT_EQ(container_of(claim).envs, grant.envs);
  stop(first, SIGTERM, 128 + SIGTERM);
  EXPECT_EQ(unprepare(claim), "");
  sharing["mpsConfig"]["defaultActiveThreads"] = 1;
  EXPECT_THAT(prepare(put_claim("wrong", {whole}, configured(sharing))).error,
              HasSubstr("status.allocation.devices.config[0].opaque.parameters.sharing.mpsConfig has no field "
                        "\"defaultActiveThreads\""));
  EXPECT_EQ(endpoints(), 0u);
}

// Promise: dra/prepare: With a list in `dra.devices`, slots and claims are served at a time, each on its own GPUs.
// Promise: dra/prepare: After a change without a drain no GPU is given away twice, by slots and by claims.
TEST_F(NodeDra, SlotsAndClaimsAreServedOnTheGpusOfTheirOwn) {
  ASSERT_NO_FATAL_FAILURE(make_node(2));
  put_node_object();
  const auto list = [](int gpu) { return sharing("mps", 2) + "dra: {devices: [" + std::to_string(gpu) + "]}\n"; };
  ASSERT_NO_FATAL_FAILURE(start_programs(list(0)));
  ASSERT_TRUE(until_healthy(2));
  ASSERT_NO_FATAL_FAILURE(register_driver());
  until_serving(2);
  const auto status = until_node([](const Json& s) { return dra_of(s, "slices")["state"] == "published"; });
  EXPECT_EQ(dra_of(status, "gpus"), Json::array({{{"index", "0"}, {"uuid", uuid(0)}}}));
  const auto slices = Json::parse(api_->object("/apis/resource.k8s.io/v1/resourceslices", "00000-gpu.tranche.io-n1"));
  for (const auto& device : slices["spec"]["devices"]) EXPECT_THAT(std::string(device["name"]), HasSubstr("gpu-0"));

  EXPECT_EQ(attached(start_cuda(admitted(kubelet(), "tenant", 1), {"--hold"}))["mps"], true);
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  EXPECT_EQ(prepare(claim).error, "") << "the slot is of the other GPU";
  EXPECT_THAT(prepare(put_claim("other", {share("gpu", "6Gi", "20", kShareId, "gpu-1-shared")})).error,
              HasSubstr("device gpu-1-shared is not on this node any more"));

  // Exchanged without a drain: neither side has what the other still holds. A claim waits 20 s at most.
  until_node([](const Json& s) {
    return std::ranges::any_of(s["grants"], [](const Json& grant) { return grant.value("pod", "") == "tenant"; });
  });
  write("config.yaml", list(1));
  until_node([](const Json& s) { return s["devices"].size() == 1 && s["devices"][0].value("cause", "") == "claims"; });
  const auto moved = put_claim("moved", {share("gpu", "6Gi", "20", kShareId, "gpu-1-shared")});
  auto waiting = std::async(std::launch::async, [&] { return kubelet_dra_->prepare({moved}); });
  ASSERT_TRUE(until_says(*program("node"), "pod default/tenant (container "));
  kubelet().remove_pod("default/tenant");
  EXPECT_EQ(waiting.get()->at(moved.uid).error, "");
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_TRUE(until_healthy(2));
}

TEST_F(NodeDra, AClaimOfAPodIsHeldByIt) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const Json owner = owned_by("a");
  const auto claim = put_claim("six", {share("main", "6Gi", "20")}, owner);
  api_->put_pod("default", "a", R"({"spec":{"nodeName":"n1"},"status":{"phase":"Running","containerStatuses":[
{"name":"main","containerID":"containerd://c1","ready":true,"started":true,"state":{"running":{}}}]}})");
  ASSERT_EQ(prepare(claim).error, "");
  const auto status =
      until_node([](const Json& s) { return s["grants"].size() == 1 && s["grants"][0].contains("podUid"); });
  EXPECT_EQ(status["ready"], true) << status["readyReason"];
  EXPECT_EQ(status["grants"][0]["pod"], "a");
  EXPECT_EQ(status["grants"][0]["claim"], "six");
  EXPECT_EQ(status["grants"][0]["devices"][0]["memoryMiB"], 6144);
  EXPECT_EQ(unprepare(claim), "");
  until_node([](const Json& s) { return s["grants"].empty(); });
}

// Promise: guard: A claim that is named as another tenant's pod, or says that the pod owns it, is held to its own.
TEST_F(NodeDra, ClaimsThatAreNamedAlikeAreHeldToTheirOwnLimits) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto first = put_claim("train-0-gpu-x7k2p", {share("gpu", "60Gi", "40", "s-1")}, owned_by("train-0"));
  const auto second = put_claim("train-0-gpu-b8w4n", {share("gpu", "4Gi", "5", "s-2")}, owned_by("train-0"));
  const auto named = put_claim("train-0", {share("gpu", "512Mi", "5", "s-3")});
  auto forged_owner = owned_by("train-0");
  forged_owner["status"]["reservedFor"][0].update({{"name", "mallory"}, {"uid", "uid-mallory"}});
  const auto forged = put_claim("forged", {share("gpu", "1Gi", "5", "s-4")}, forged_owner);
  for (const auto& claim : {first, second, named, forged}) ASSERT_EQ(prepare(claim).error, "");
  const auto status = until_node([](const Json& s) { return s["guard"]["limits"].size() == 4; });
  std::map<std::string, std::string> pods;
  for (const auto& grant : status["grants"]) pods[grant["claim"]] = grant["pod"];
  EXPECT_EQ(pods["train-0-gpu-x7k2p"], "train-0");
  EXPECT_EQ(pods["train-0-gpu-b8w4n"], "train-0");
  EXPECT_EQ(pods["train-0"], "claim:train-0");
  EXPECT_EQ(pods["forged"], "claim:forged");
  for (const auto& [claim, limit_mib] : {std::pair(second, 4096u), std::pair(named, 512u), std::pair(forged, 1024u)}) {
    auto container = container_of(claim);
    for (const char* variable : {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"})
      container.envs.erase(variable);  // what is left is the endpoint's
    Program& cuda = start_cuda(container, {"--hold"});
    const auto context = attached(cuda);
    EXPECT_EQ(context["limit"].get<std::uint64_t>() >> 20, limit_mib) << claim.name;
    EXPECT_LT(context["runs_on"], 20) << claim.name;
    stop(cuda, SIGTERM, 128 + SIGTERM);
  }
  for (const auto& claim : {first, second, named, forged}) EXPECT_EQ(unprepare(claim), "");
  until_node([](const Json& s) { return s["guard"]["limits"].empty() && s["grants"].empty(); });
  const auto no_grants = [&] { return fs::file_size(in("run/grants.txt")) == 0; };
  EXPECT_TRUE(until(no_grants, "an empty grants.txt"));
}

TEST_F(NodeDra, KubeletReceivesTheHealthOfEveryDevice) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  EXPECT_TRUE(kubelet_dra_->prepare({})) << "a call without claims is a probe";
  std::map<std::string, std::string> health;
  EXPECT_TRUE(until(
      [&] {
        health = kubelet_dra_->health().value_or(health);
        return health.contains("n1/gpu-0-shared") && health["n1/gpu-0-shared"] == "HEALTHY";
      },
      "a healthy device"));
  EXPECT_THAT(health, SizeIs(3));
  stop(*program("mps"), SIGTERM, 0);
  EXPECT_TRUE(until(
      [&] {
        health = kubelet_dra_->health().value_or(health);
        return health["n1/gpu-0-shared"].starts_with("not: ");
      },
      "a device whose pool is down"));
  EXPECT_THAT(health["n1/gpu-0-shared"], HasSubstr("tranche mps"));
}

TEST_F(NodeDra, WithoutTheMpsProgramAClaimIsRefusedAndNothingIsLeft) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  stop(*program("mps"), SIGTERM, 0);
  until_node([](const Json& status) { return status["mps"]["connected"] == false; });
  EXPECT_THAT(asked_once(claim).error, HasSubstr("accepts no new claims: tranche mps is not running"));
  EXPECT_FALSE(fs::exists(spec_path(claim)));
  start_mps();
  until_serving(1);  // the agent hears of it a moment later
  EXPECT_EQ(prepare(claim).error, "");
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_EQ(endpoints(), 0u);
}

// Promise: dra/prepare: A claim's endpoint stays one for several pods over restarts of `tranche mps`.
TEST_F(NodeDra, AfterEveryRestartOfTheMpsProgramAClaimsEndpointIsForSeveralPodsAgain) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  ASSERT_EQ(prepare(claim).error, "");
  const auto is_for_several = [](const Json& s) {
    const Json& endpoints = pool_of(s, 0)["endpoints"];
    return endpoints.size() == 1 && endpoints[0].value("anyPod", false);
  };
  until_mps(is_for_several);
  for (int restart = 0; restart < 2; ++restart) {
    stop(*program("mps"), SIGKILL, 128 + SIGKILL);
    // It has to be reported, even without a file that records it.
    for (const auto& pool : fs::directory_iterator(in("mps/pools"))) fs::remove_all(pool.path() / "limits");
    start_mps();
    until_serving(1);
    until_mps(is_for_several);
  }
  EXPECT_EQ(unprepare(claim), "");
}

// Promise: dra/prepare: A claim whose record is lost is known again by its CDI specification.
TEST_F(NodeDra, ALostRecordIsReadBackFromTheSpecificationAndStillCounts) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  const auto prepared = prepare(claim);
  ASSERT_EQ(prepared.error, "");
  ASSERT_NO_FATAL_FAILURE(restart_agent([&] { lose_records(); }));
  until_node([](const Json& s) { return dra_of(s, "claims").size() == 1; });
  EXPECT_EQ(prepare(claim), prepared);
  const auto second = put_claim("too-much", {share("gpu", "6Gi", "90", "s-2")});
  auto waiting = std::async(std::launch::async, [&] { return kubelet_dra_->prepare({second}); });
  ASSERT_TRUE(until_says(*program("node"), "hold 20 of 100 cores"));
  EXPECT_EQ(unprepare(second), "");
  EXPECT_THAT(waiting.get()->at(second.uid).error, HasSubstr("hold 20 of 100 cores"));
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_FALSE(fs::exists(spec_path(claim)));
  EXPECT_EQ(endpoints(), 0u);
  // What was unprepared does not come back.
  ASSERT_NO_FATAL_FAILURE(restart_agent([&] { lose_records(); }));
  until_node([](const Json& s) { return dra_of(s, "claims").empty(); });
}

TEST_F(NodeDra, AnUnknownClaimLeavesNoSpecificationAndNoEndpoint) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  ASSERT_EQ(prepare(claim).error, "");
  stop(*program("node"), SIGKILL, 128 + SIGKILL);
  lose_records();
  Json spec = spec_of(claim);
  spec["devices"].erase(spec["devices"].size() - 1);
  write("cdi/gpu.tranche.io-claim_" + claim.uid + ".json", spec.dump());
  // Another driver's part of the same claim.
  const std::string others = "cdi/net.example.com-claim_" + claim.uid + ".json";
  write(others, R"({"cdiVersion":"0.3.0","kind":"net.example.com/claim",
"devices":[{"name":"a","containerEdits":{"env":["A=b"]}}]})");
  start_agent();
  ASSERT_NO_FATAL_FAILURE(register_driver());
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_FALSE(fs::exists(spec_path(claim)));
  EXPECT_TRUE(fs::exists(in(others)));
  EXPECT_EQ(endpoints(), 0u);
}

// Promise: dra/prepare: A driver name that was changed is served until its last claim is unprepared.
TEST_F(NodeDra, AFormerDriverNameIsServedUntilItsLastClaimIsUnprepared) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  const auto prepared = prepare(claim);
  ASSERT_EQ(prepared.error, "");
  write("config.yaml", "version: v1\ndra: {devices: all, driverName: gpu.example.com}\n");
  until_node([](const Json& s) { return dra_of(s, "driver") == "gpu.example.com" && dra_of(s, "serving") == true; });
  EXPECT_TRUE(fs::exists(in("plugins_registry/gpu.example.com-reg.sock")));
  EXPECT_EQ(prepare(claim), prepared);
  until_node([](const Json& s) { return dra_of(s, "claims")[0]["driver"] == "gpu.tranche.io"; });
  stop(*program("node"), SIGKILL, 128 + SIGKILL);
  fs::remove_all(in("cdi"));
  start_agent();
  until_node([](const Json& s) { return dra_of(s, "driver") == "gpu.example.com" && dra_of(s, "serving") == true; });
  auto former = sim::DraKubelet::register_driver(in("plugins_registry/gpu.tranche.io-reg.sock"));
  ASSERT_TRUE(former) << to_string(former.error());
  kubelet_dra_ = *std::move(former);
  EXPECT_EQ(prepare(claim), prepared);
  EXPECT_TRUE(fs::exists(spec_path(claim)));
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_FALSE(fs::exists(spec_path(claim)));
  EXPECT_EQ(endpoints(), 0u);
  EXPECT_TRUE(until([&] { return !fs::exists(in("plugins_registry/gpu.tranche.io-reg.sock")); }, "the former socket"));
  EXPECT_TRUE(fs::exists(in("plugins_registry/gpu.example.com-reg.sock")));
}

// Promise: dra/prepare: A socket that was deleted is made again, and kubelet registers the driver anew.
TEST_F(NodeDra, ASocketThatWasDeletedIsMadeAgain) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const std::string socket = in("plugins_registry/gpu.tranche.io-reg.sock");
  kubelet_dra_.reset();
  fs::remove(socket);
  ASSERT_TRUE(until([&] { return fs::exists(socket); }, "a new registration"));
  ASSERT_NO_FATAL_FAILURE(register_driver());
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  EXPECT_EQ(prepare(claim).error, "");
  EXPECT_EQ(unprepare(claim), "");
}

// Promise: dra/prepare: During a rolling update one agent at a time has the claims, and each knows what the other did.
TEST_F(NodeDra, OfTwoAgentsDuringARollingUpdateOneAtATimeHasTheClaims) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  Program& older = *program("node");
  const auto first = put_claim("first", {share("gpu", "6Gi", "20")});
  ASSERT_EQ(prepare(first).error, "");
  const auto kubelet_of_older = std::move(kubelet_dra_);

  Program& newer = start_agent();
  ASSERT_TRUE(until_says(newer, "dra.serving"));
  ASSERT_NO_FATAL_FAILURE(register_driver());
  const auto second = put_claim("second", {share("gpu", "6Gi", "20", "s2")});
  ASSERT_TRUE(until_prepared(*kubelet_dra_, second)) << "it waits until the older one has given the claims up";
  EXPECT_EQ(unprepare(first), "");
  const auto refused = kubelet_of_older->prepare({put_claim("third", {share("gpu", "6Gi", "20", "s3")})});
  ASSERT_TRUE(refused) << to_string(refused.error());
  EXPECT_THAT(refused->at("uid-third").error, HasSubstr("a newer agent of this node serves claims"));
  EXPECT_THAT(kubelet_of_older->unprepare({second})->at("uid-second"), HasSubstr("a newer agent"));
  // It puts nothing back, neither the specification nor the endpoint of a claim that it does not have any more.
  EXPECT_EQ(endpoints(), 1u);
  EXPECT_FALSE(fs::exists(spec_path(first)));

  // The newer one fails: the older one goes on, with the claims as they are now.
  stop(newer, SIGKILL, 128 + SIGKILL);
  ASSERT_TRUE(until_says(older, "claims.taken"));
  ASSERT_TRUE(until(
      [&] {
        auto again = sim::DraKubelet::register_driver(in("plugins_registry/gpu.tranche.io-reg.sock"));
        if (again) kubelet_dra_ = *std::move(again);
        return again.has_value();
      },
      "the socket of the older agent"));
  EXPECT_TRUE(until_prepared(*kubelet_dra_, put_claim("rest", {share("gpu", "6Gi", "80", "s4")})))
      << "the first one's share is free";
  std::ifstream records(in("run/claims.txt"));
  const std::string kept(std::istreambuf_iterator<char>(records), {});
  EXPECT_THAT(kept, AllOf(HasSubstr("uid-second"), HasSubstr("uid-rest"), Not(HasSubstr("uid-first"))));
  EXPECT_EQ(unprepare(second), "");
  EXPECT_FALSE(fs::exists(spec_path(second)));
}

// Promise: dra/prepare: A newer agent leaves an older one its sockets, and kubelet can go back to that.
TEST_F(NodeDra, TheSocketsOfTwoPodsDoNotReplaceEachOther) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const std::string fixed = "gpu.tranche.io-reg.sock";
  stop(*program("node"), SIGKILL, 128 + SIGKILL);  // its socket stays
  ASSERT_THAT(registrations(), ElementsAre(fixed));
  Program& older = start_agent("pod-1");
  ASSERT_TRUE(until([&] { return registrations().size() == 1 && !registrations().contains(fixed); }, "its socket"));
  const std::string first = *registrations().begin();
  auto of_older = sim::DraKubelet::register_driver(in("plugins_registry/" + first));
  ASSERT_TRUE(of_older) << to_string(of_older.error());
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  ASSERT_TRUE(until_prepared(**of_older, claim));

  Program& newer = start_agent("pod-2");
  ASSERT_TRUE(until([&] { return registrations().size() == 2; }, "a socket for each"));
  auto names = registrations();
  names.erase(first);
  auto of_newer = sim::DraKubelet::register_driver(in("plugins_registry/" + *names.begin()));
  ASSERT_TRUE(of_newer) << to_string(of_newer.error());
  EXPECT_NE((*of_newer)->endpoint(), (*of_older)->endpoint());
  const auto second = put_claim("second", {share("gpu", "6Gi", "20", "s2")});
  ASSERT_TRUE(until_prepared(**of_newer, second));

  stop(newer, SIGTERM, 0);
  ASSERT_TRUE(until_says(older, "claims.taken"));
  EXPECT_THAT(registrations(), ElementsAre(first)) << "the newer one removes its own";
  EXPECT_EQ((*of_older)->unprepare({second})->at(second.uid), "") << "by the connection that kubelet has";
  EXPECT_EQ((*of_older)->unprepare({claim})->at(claim.uid), "");
  EXPECT_EQ(endpoints(), 0u);
}

// Claims as a scheduler that has lost track hands them out, with everything that a node does to its agent: the sum of
// what is prepared never exceeds a GPU, none is exclusive twice, and in the end nothing is left.
// Promise: dra/prepare: Under random claims, forced deletions, reboots and lost files no GPU is given away twice.
TEST_F(NodeDra, RandomClaimsRestartsAndLostFilesNeverExceedAGpuAndLeaveNothing) {
  const char* asked = std::getenv("TRANCHE_DRA_CHANGES");  // 500 in the slow run
  const int changes = asked == nullptr ? 30 : std::atoi(asked);
  ASSERT_NO_FATAL_FAILURE(start_with(2));
  struct Known {
    sim::DraClaimRef claim;
    int gpu = 0;
    bool whole = false;
    std::uint64_t gib = 0, cores = 0;
  };
  std::vector<Known> held;
  std::mt19937 random(20261125);
  const auto any = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  const auto fits = [&](const Known& next) {
    std::uint64_t gib = next.gib, cores = next.cores;
    for (const auto& each : held) {
      if (each.gpu != next.gpu) continue;
      if (each.whole || next.whole) return false;
      gib += each.gib;
      cores += each.cores;
    }
    return gib <= 140 && cores <= 100;
  };
  const auto restart = [&](const std::string& lost) {
    stop(*program("node"), SIGKILL, 128 + SIGKILL);
    if (lost == "records" && fs::exists(in("run/claims.txt"))) lose_records();
    if (lost == "specifications") fs::remove_all(in("cdi"));
    start_agent();
    register_driver();
  };
  const auto check = [&] {
    const auto status = until_node([&](const Json& s) { return dra_of(s, "claims").size() == held.size(); });
    std::map<std::string, std::uint64_t> memory, cores, shares, wholes;
    for (const auto& claim : dra_of(status, "claims")) {
      for (const auto& part : claim["parts"]) {
        const std::string gpu = part["gpu"];
        ++(part["kind"] == "gpu" ? wholes : shares)[gpu];
        memory[gpu] += part["memoryMiB"].get<std::uint64_t>();
        cores[gpu] += part["cores"].get<std::uint64_t>();
      }
    }
    for (int gpu = 0; gpu < 2; ++gpu) {
      EXPECT_LE(memory[uuid(gpu)], 143771u);
      EXPECT_LE(cores[uuid(gpu)], 100u);
      EXPECT_LE(wholes[uuid(gpu)], 1u);
      EXPECT_TRUE(wholes[uuid(gpu)] == 0 || shares[uuid(gpu)] == 0);
    }
    for (const auto& each : held)
      EXPECT_TRUE(until([&] { return fs::exists(spec_path(each.claim)); }, "the specification of " + each.claim.name));
    EXPECT_TRUE(until([&] { return endpoints() == held.size(); }, "an endpoint for each claim"));
  };
  for (int change = 0; change < changes; ++change) {
    const int kind = any(10);
    SCOPED_TRACE("change " + std::to_string(change) + ", kind " + std::to_string(kind));
    if (kind <= 5) {
      Known next{{}, any(1), any(4) == 0, 0, 0};
      const std::string gpu = "gpu-" + std::to_string(next.gpu), name = "c" + std::to_string(change);
      if (!next.whole) {
        next.gib = static_cast<std::uint64_t>(1 + any(79));
        next.cores = static_cast<std::uint64_t>(5 + any(55));
      }
      next.claim = put_claim(name, {next.whole ? result("gpu", gpu, Json::object())
                                               : share("gpu", std::to_string(next.gib) + "Gi",
                                                       std::to_string(next.cores), "s-" + name, gpu + "-shared")});
      if (fits(next)) {
        ASSERT_TRUE(until_prepared(*kubelet_dra_, next.claim));
        held.push_back(next);
      } else {
        // As after a forced deletion: it waits for the end of those that hold its room, or is given up.
        auto waiting = std::async(std::launch::async, [&] { return kubelet_dra_->prepare({next.claim}); });
        ASSERT_TRUE(until_says(*program("node"), "default/" + name + " (uid-" + name + ")"));
        const bool give_up = any(1) == 0;
        while (!give_up && !fits(next)) {
          const auto other = std::ranges::find(held, next.gpu, &Known::gpu);
          ASSERT_NE(other, held.end());
          EXPECT_EQ(unprepare(other->claim), "");
          held.erase(other);
        }
        if (give_up) {
          EXPECT_EQ(unprepare(next.claim), "");
        }
        const auto answer = waiting.get();
        ASSERT_TRUE(answer) << to_string(answer.error());
        EXPECT_EQ(answer->at(next.claim.uid).error.empty(), !give_up) << answer->at(next.claim.uid).error;
        if (!give_up) held.push_back(next);
      }
    } else if (kind == 6 && !held.empty()) {
      const auto at = held.begin() + any(static_cast<int>(held.size()) - 1);
      EXPECT_EQ(unprepare(at->claim), "");
      held.erase(at);
    } else if (kind == 7 && !held.empty()) {
      fs::remove(spec_path(held.front().claim));
    } else if (kind == 10) {
      ASSERT_NO_FATAL_FAILURE(reboot(2));
      for (const auto& each : held) ASSERT_TRUE(until_prepared(*kubelet_dra_, each.claim));
    } else {
      ASSERT_NO_FATAL_FAILURE(restart(kind == 8 ? "records" : any(1) == 0 ? "specifications" : "nothing"));
    }
    ASSERT_NO_FATAL_FAILURE(check());
    if (HasFailure()) return;
    drop_ended();
  }
  for (const auto& each : held) EXPECT_EQ(unprepare(each.claim), "");
  held.clear();
  check();
  EXPECT_TRUE(until([&] { return fs::file_size(in("run/claims.txt")) == 0; }, "an empty claims.txt"));
  const auto files = fs::directory_iterator(in("cdi"));
  EXPECT_EQ(std::distance(begin(files), end(files)), 0);
  for (int gpu = 0; gpu < 2; ++gpu) {
    const std::string name = "gpu-" + std::to_string(gpu);
    EXPECT_EQ(prepare(put_claim("all-" + name, {result("gpu", name, Json::object())})).error, "");
  }
}

// Promise: verify/claims: The tools name a prepared claim, its limits and that they are enforced.
TEST_F(NodeDra, TheToolsKnowPreparedClaims) {
  put_node_object();
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")}, owned_by("a"));
  ASSERT_EQ(prepare(claim).error, "");
  until_node([](const Json& s) {
    return s["guard"]["limits"].size() == 1 && dra_of(s, "slices").value("state", "") == "published" &&
           std::ranges::any_of(s["inForce"], [](const Json& row) {
             return row["promise"] == "memory and SMs of a client" && row["state"] == "yes";
           });
  });
  const auto of = [&](Strings words) {
    Program& program = start(std::move(words));
    EXPECT_GE(finish(program), 0);
    return program.out() + program.err();
  };
  EXPECT_THAT(of({tranche(), "status", "--socket", node_socket()}),
              AllOf(HasSubstr("claims: driver gpu.tranche.io, of GPU 0, "), HasSubstr("default/six/gpu"),
                    HasSubstr("gpu-0-shared"), HasSubstr("6144 MiB, 30 SMs (20 cores)"), HasSubstr("enforced"),
                    HasSubstr("held by pod default/a")));
  for (const char* name : {"six", "default/six", "uid-six", "gpu-0-shared", "0", "default/a"})
    EXPECT_THAT(of({tranche(), "why", name, "--socket", node_socket()}), HasSubstr("its limits are enforced")) << name;
  const auto verify = [&] {
    return of({tranche(), "verify", "--local", "--config-file", config_path_, "--run-dir", in("run"), "--mps-root",
               in("mps"), "--cdi-root", in("cdi"), "--driver-root-ctr-path", in("driver")});
  };
  EXPECT_THAT(verify(), AllOf(HasSubstr("agent.claims"), HasSubstr("claim.limits"), Not(HasSubstr("FAIL  claim")),
                              Not(HasSubstr("nothing is advertised"))));
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_TRUE(until(
      [&] {
        return of({tranche(), "why", "six", "--socket", node_socket()}).find("reports no pod, claim, GPU or slot") !=
               std::string::npos;
      },
      "the agent has no claim"));
}

// Promise: dra/prepare: One call with one claim ten thousand times over is answered as if it had it once.
TEST_F(NodeDra, ACallThatRepeatsAClaimIsAnsweredOnce) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim =
      put_claim("monitor", {result("gpu", "gpu-0-monitor", {{"shareID", "s-1"}, {"adminAccess", true}})});
  const auto answer = kubelet_dra_->prepare(std::vector<sim::DraClaimRef>(10'000, claim));
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_THAT(answer->at(claim.uid).devices, SizeIs(1));
  const auto undone = kubelet_dra_->unprepare(std::vector<sim::DraClaimRef>(10'000, claim));
  ASSERT_TRUE(undone) << to_string(undone.error());
  EXPECT_EQ(undone->at(claim.uid), "");
}

// Promise: dra/prepare: An agent that starts without the driver library unprepares what is on its record.
TEST_F(NodeDra, WithoutTheDriverAtTheStartAClaimIsUnpreparedFromItsRecord) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  const auto claim = put_claim("six", {share("gpu", "6Gi", "20")});
  ASSERT_EQ(prepare(claim).error, "");
  stop(*program("node"), SIGKILL, 128 + SIGKILL);
  write("run/.claims.txt.1.2.tmp", "what a killed write left");
  write("cdi/.gpu.tranche.io-claim_uid-six.json.1.2.tmp", "what a killed write left");
  sim_node({"driver", "absent"});
  start_agent();
  ASSERT_NO_FATAL_FAILURE(register_driver());
  EXPECT_FALSE(fs::exists(in("run/.claims.txt.1.2.tmp")));
  EXPECT_FALSE(fs::exists(in("cdi/.gpu.tranche.io-claim_uid-six.json.1.2.tmp")));
  EXPECT_THAT(asked_once(claim).error, HasSubstr("the GPUs of this node are not known yet"));
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_FALSE(fs::exists(spec_path(claim)));
  until_node([](const Json& s) { return dra_of(s, "claims").empty(); });
  EXPECT_EQ(endpoints(), 0u);
  sim_node({"driver", "present"});
  const auto next = put_claim("all", {share("gpu", "100Gi", "100", "s-2")});
  EXPECT_TRUE(until_prepared(*kubelet_dra_, next));
}

// Promise: dra/prepare: The endpoint of a generated claim is its pod's, whichever other pod names the claim.
TEST_F(NodeDra, AGeneratedClaimIsForThePodThatItWasGeneratedFor) {
  ASSERT_NO_FATAL_FAILURE(start_with(1));
  auto generated = owned_by("train-0");
  generated["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] = "gpu";
  const Json mallory{{"resource", "pods"}, {"name", "mallory"}, {"uid", "uid-mallory"}};
  auto shared = generated;
  shared["status"]["reservedFor"].push_back(mallory);
  const auto claim = put_claim("train-0-gpu-x7k2p", {share("gpu", "6Gi", "20", "s-1")}, shared);
  ASSERT_EQ(prepare(claim).error, "");
  until_mps([](const Json& s) {
    const Json& endpoints = pool_of(s, 0)["endpoints"];
    return endpoints.size() == 1 && endpoints[0]["pod"] == "uid-train-0" && !endpoints[0].value("anyPod", true);
  });
  auto taken = generated;
  taken["status"]["reservedFor"] = Json::array({mallory});
  const auto other = put_claim("train-1-gpu-b8w4n", {share("gpu", "6Gi", "20", "s-2")}, taken);
  EXPECT_THAT(prepare(other).error, HasSubstr("status.reservedFor does not have the pod \"train-0\", for which the "
                                              "claim was generated"));
  EXPECT_EQ(unprepare(claim), "");
  EXPECT_EQ(unprepare(other), "");
  EXPECT_EQ(endpoints(), 0u);
}

}  // namespace
}  // namespace tranche::e2e
