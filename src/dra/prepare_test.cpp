#include "dra/prepare.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "cdi/spec.h"
#include "cdi_grammar.h"
#include "dra/claim_spec.h"
#include "dra/partition_fixture.h"
#include "dra/prepared_fixture.h"
#include "gpu/models/models.h"

namespace tranche::dra {
namespace prepare_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DraPrepare : public ::testing::Test {
 protected:
  DraPrepare() {
    config::Config config;
    config.dra.devices = config::DraDevices::kAll;
    const auto inventory = *gpu::inventory_of_model("2xH200");
    offered_.driver = "gpu.tranche.io";
    offered_.devices = devices_of(config, inventory).list;
    for (const auto& gpu : inventory.gpus) offered_.mps_pools[gpu.uuid] = "gpu-" + std::to_string(gpu.index);
  }
  static Allocated share(const std::string& request, std::uint64_t gibibytes, std::uint64_t cores,
                         const std::string& id = "s", const std::string& device = "gpu-0-shared") {
    return {request, "n1", device, id, false, {{"memory", gibibytes << 30}, {"cores", cores}}};
  }
  static Allocated whole(const std::string& device = "gpu-0") { return {"gpu", "n1", device, "", false, {}}; }
  static Claim claim(const std::string& uid, std::vector<Allocated> devices) {
    return {{"team", "c-" + uid, uid}, std::move(devices), {}, "p"};
  }
  Result<PreparedClaim> put(const std::string& uid, std::vector<Allocated> devices) {
    auto made = prepare(claim(uid, std::move(devices)), offered_, prepared_);
    if (made) prepared_[uid] = *made;
    return made;
  }
  std::string refused(std::vector<Allocated> devices, tranche::Kind kind) {
    const auto made = prepare(claim("x", std::move(devices)), offered_, prepared_);
    if (made) return "prepared";
    EXPECT_EQ(made.error().kind, kind) << to_string(made.error());
    return made.error().what;
  }

  Offered offered_;
  PreparedClaims prepared_;
};

TEST_F(DraPrepare, AShareHasItsMemoryAndAtLeastItsCores) {
  const auto made = put("a", {share("gpu", 6, 20)});
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_THAT(made->parts, SizeIs(1));
  const Part& part = made->parts[0];
  EXPECT_EQ(part.limits.memory, gib(6));
  EXPECT_EQ(part.cores, 20u);
  EXPECT_EQ(part.limits.sms, 30u) << "26 of 132, rounded up to a trusted count";
  EXPECT_EQ(part.mps_pool, "gpu-0");
  EXPECT_EQ(part.grant.size(), 16u);
  offered_.rounding = config::SmRounding::kOff;
  EXPECT_EQ(put("b", {share("gpu", 6, 20)})->parts[0].limits.sms, 26u);
}

// Promise: dra/prepare: A claim has no part of a GPU while pods hold slots of it.
TEST_F(DraPrepare, SlotsOfTheDevicePluginExcludeClaims) {
  offered_.slots_known = false;
  EXPECT_THAT(refused({share("gpu", 6, 20)}, tranche::Kind::kUnavailable), HasSubstr("kubelet has not reported yet"));
  offered_.slots_known = true;
  offered_.slots_held[put("known", {share("gpu", 6, 20)})->parts[0].gpu_uuid] = "pod team/train (container main)";
  EXPECT_THAT(refused({share("gpu", 6, 20)}, tranche::Kind::kConflict),
              HasSubstr("pod team/train (container main) holds slots of the device plugin there"));
}

TEST_F(DraPrepare, AFaultyGpuTakesNoNewClaims) {
  for (auto& device : offered_.devices) device.fault = gpu::Unhealthy{gpu::Cause::kLost, "it does not answer"};
  EXPECT_THAT(refused({share("gpu", 6, 20)}, tranche::Kind::kUnavailable), HasSubstr("it does not answer"));
}

TEST_F(DraPrepare, SharesOfOneRequestAreOnePartAndRequestsAreNot) {
  const auto made = put("a", {share("x", 6, 20, "s1"), share("x", 4, 10, "s2"), share("y", 1, 5, "s3")});
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_THAT(made->parts, SizeIs(2));
  EXPECT_EQ(made->parts[0].limits.memory, gib(10));
  EXPECT_EQ(made->parts[0].cores, 30u);
  EXPECT_THAT(made->parts[0].devices, SizeIs(2));
  EXPECT_EQ(made->parts[1].limits.memory, gib(1));
  EXPECT_NE(made->parts[0].grant, made->parts[1].grant);
}

// Promise: dra/prepare: A request with devices of several GPUs has one endpoint with a limit on each, or is refused.
TEST_F(DraPrepare, ARequestWithSeveralGpusHasOneEndpointIfOneDaemonServesThem) {
  const std::vector<Allocated> two_shares{share("gpu", 6, 50, "1"), share("gpu", 4, 20, "2", "gpu-1-shared")};
  EXPECT_THAT(refused(two_shares, tranche::Kind::kInvalid), HasSubstr("each of which has an MPS daemon of its own"));
  EXPECT_THAT(refused({whole("gpu-1"), whole("gpu-0")}, tranche::Kind::kInvalid), HasSubstr("(dra.split: span)"));
  for (auto& [gpu, pool] : offered_.mps_pools) pool = "set-1";
  const auto made = put("a", two_shares);
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_THAT(made->parts, SizeIs(2));
  EXPECT_EQ(made->parts[0].grant, made->parts[1].grant);
  EXPECT_EQ(made->parts[0].limits.memory, gib(6));
  EXPECT_EQ(made->parts[1].limits.memory, gib(4));
  for (const Part& part : made->parts) EXPECT_EQ(part.limits.sms, 30u) << "a process has one percentage: the smallest";
  prepared_.clear();
  const auto both = put("b", {whole("gpu-1"), whole("gpu-0")});
  ASSERT_TRUE(both) << to_string(both.error());
  EXPECT_EQ(both->parts[0].grant, both->parts[1].grant);
  EXPECT_THAT(refused({share("gpu", 1, 5)}, tranche::Kind::kConflict), HasSubstr("holds all of it"));
  prepared_.clear();
  const auto apart = put("c", {share("x", 1, 20, "1"), share("y", 1, 20, "2", "gpu-1-shared")});
  ASSERT_TRUE(apart) << to_string(apart.error());
  EXPECT_NE(apart->parts[0].grant, apart->parts[1].grant) << "they can be of different containers";
}

TEST_F(DraPrepare, GivesAKnownClaimWhatItHasWhateverIsOfferedNow) {
  const auto first = put("a", {share("gpu", 6, 20)});
  offered_.devices.clear();
  offered_.mps_pools.clear();
  EXPECT_EQ(prepare(claim("a", {share("gpu", 99, 99)}), offered_, prepared_), first);
}

// Promise: dra/prepare: What is prepared on a GPU never exceeds its memory or its cores.
TEST_F(DraPrepare, RefusesWhatExceedsAGpu) {
  ASSERT_TRUE(put("a", {share("gpu", 100, 50)}));
  EXPECT_THAT(
      refused({share("gpu", 60, 10)}, tranche::Kind::kConflict),
      HasSubstr("claims such as team/c-a (a) hold 102400 of 143771 MiB of memory, and 61440 MiB are asked for"));
  EXPECT_THAT(refused({share("gpu", 10, 51)}, tranche::Kind::kConflict), HasSubstr("hold 50 of 100 cores, and 51"));
  EXPECT_THAT(refused({share("x", 1, 30, "1"), share("y", 1, 30, "2")}, tranche::Kind::kConflict),
              HasSubstr("80 of 100"))
      << "parts of one claim count too";
  EXPECT_TRUE(put("b", {share("gpu", 40, 50)}));
}

TEST_F(DraPrepare, AWholeGpuAndSharesExcludeEachOther) {
  ASSERT_TRUE(put("a", {share("gpu", 1, 5)}));
  EXPECT_THAT(refused({whole()}, tranche::Kind::kConflict), HasSubstr("the claim team/c-a (a) holds a share of it"));
  ASSERT_TRUE(put("b", {whole("gpu-1")}));
  EXPECT_THAT(refused({whole("gpu-1")}, tranche::Kind::kConflict), HasSubstr("the claim team/c-b (b) holds all of it"));
  EXPECT_THAT(refused({share("gpu", 1, 5, "s", "gpu-1-shared")}, tranche::Kind::kConflict),
              HasSubstr("holds all of it"));
  prepared_.erase("a");
  EXPECT_TRUE(put("c", {whole()}));
}

// Promise: dra/prepare: A MIG device is of one claim at a time, as it is: without MPS.
TEST_F(DraPrepare, AMigDeviceIsOfOneClaimWithoutAnEndpoint) {
  Device mig;
  mig.name = "gpu-0-mig-1g18gb-7-0";
  mig.kind = Kind::kMig;
  mig.gpu_uuid = "MIG-a";
  mig.parent_uuid = "GPU-parent";
  mig.profile = "1g.18gb";
  Device second = mig;
  second.name = "gpu-0-mig-1g18gb-8-0";
  second.gpu_uuid = "MIG-b";
  const Device gpu_1 = *find_device(offered_.devices, "gpu-1");
  offered_.devices = {mig, second};
  const auto made = put("a", {whole(mig.name)});
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_THAT(made->parts, SizeIs(1));
  EXPECT_EQ(made->parts[0].gpu_uuid, "MIG-a");
  EXPECT_EQ(made->parts[0].kind, Kind::kMig);
  EXPECT_THAT(made->parts[0].grant, IsEmpty());
  EXPECT_THAT(made->parts[0].mps_pool, IsEmpty());
  EXPECT_THAT(refused({whole(mig.name)}, tranche::Kind::kConflict),
              HasSubstr("all of MIG device 1g.18gb of GPU 0 (MIG-a) now: the claim team/c-a (a) holds all of it"));
  EXPECT_EQ(parse_prepared(render_prepared(prepared_)).claims, prepared_);
  EXPECT_TRUE(put("b", {whole(second.name)})) << "a MIG device of its own";
  prepared_.clear();
  EXPECT_TRUE(put("two", {whole(mig.name), whole(second.name)})) << "each process uses one of them";
  prepared_.clear();
  auto configured = claim("c", {whole(mig.name)});
  configured.configs = {{.field = "config[0]", .device = DeviceConfig::For::kMig}};
  configured.configs[0].strategy = DeviceConfig::Strategy::kTimeSlicing;
  EXPECT_TRUE(prepare(configured, offered_, prepared_)) << "as the driver does by itself";
  configured.configs[0].strategy = DeviceConfig::Strategy::kMps;
  const auto with_mps = prepare(configured, offered_, prepared_);
  ASSERT_FALSE(with_mps);
  EXPECT_THAT(with_mps.error().what, HasSubstr("config[0].sharing.strategy is MPS, and request \"gpu\" has a MIG"));
  offered_.devices.push_back(gpu_1);
  EXPECT_THAT(refused({whole("gpu-1"), whole(mig.name)}, tranche::Kind::kInvalid),
              HasSubstr("has the MIG device MIG-a and a part of the GPU " + gpu_1.gpu_uuid));
  offered_.slots_held["GPU-parent"] = "pod team/train (container main)";
  EXPECT_THAT(refused({whole(mig.name)}, tranche::Kind::kConflict), HasSubstr("holds slots of the device plugin"));
}

TEST_F(DraPrepare, AdminAccessTakesNothingAndHasNoEndpoint) {
  ASSERT_TRUE(put("a", {whole()}));
  Allocated monitor{"m", "n1", "gpu-0-monitor", "s", true, {}};
  const auto made = put("b", {monitor});
  ASSERT_TRUE(made) << to_string(made.error());
  EXPECT_EQ(made->parts[0].kind, Kind::kMonitor);
  EXPECT_EQ(made->parts[0].grant, "");
  monitor.admin_access = false;
  EXPECT_THAT(refused({monitor}, tranche::Kind::kInvalid), HasSubstr("write adminAccess: true"));
}

TEST_F(DraPrepare, RefusesWhatCannotBe) {
  EXPECT_THAT(refused({share("gpu", 6, 20, "s", "gpu-7-shared")}, tranche::Kind::kNotFound),
              HasSubstr("device gpu-7-shared is not on this node any more"));
  EXPECT_THAT(refused({share("gpu", 200, 20)}, tranche::Kind::kInvalid),
              HasSubstr("consumes 204800 MiB of memory and 20 cores, and a share of GPU 0"));
  EXPECT_THAT(refused({share("gpu", 6, 101)}, tranche::Kind::kInvalid), HasSubstr("from 1 to 100 cores"));
  EXPECT_THAT(refused({share("gpu", 0, 20)}, tranche::Kind::kInvalid), HasSubstr("from 72 to 143771 MiB"));
  auto without = share("gpu", 6, 20);
  without.consumed.erase("cores");
  EXPECT_THAT(refused({without}, tranche::Kind::kInvalid), HasSubstr("gate DRAConsumableCapacity"));
  offered_.mps_pools.clear();
  EXPECT_THAT(refused({share("gpu", 1, 5)}, tranche::Kind::kUnavailable), HasSubstr("no MPS pool serves GPU 0"));
}

// Promise: dra/prepare: NVIDIA's configurations limit each process within what the claim has, and nothing beyond it.
TEST_F(DraPrepare, AConfigurationLimitsEachProcess) {
  const auto with = [this](std::vector<Allocated> devices, const std::string& sharing) -> Result<PreparedClaim> {
    auto asked = claim("x", std::move(devices));
    TRY(asked.configs.emplace_back(),
        read_device_config(
            json_of(R"({"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":)" + sharing + "}"),
            "config[0]"));
    return prepare(asked, offered_, prepared_);
  };
  const auto limits = [](const std::string& more) {
    return R"({"strategy":"MPS","mpsConfig":{"defaultActiveThreadPercentage":20)" + more + "}}";
  };
  const std::string ten = R"(,"defaultPinnedDeviceMemoryLimit":"10Gi")";
  const auto of_whole = with({whole()}, limits(ten));
  ASSERT_TRUE(of_whole) << to_string(of_whole.error());
  EXPECT_EQ(of_whole->parts[0].limits, plan::ShareLimits{}) << "their sum is not limited";
  EXPECT_EQ(of_whole->parts[0].process.memory, gib(10));
  EXPECT_EQ(of_whole->parts[0].of_each_process().sms, 30u) << "26 of 132, rounded up to a trusted count";
  const auto of_share = with({share("gpu", 6, 50)}, limits(ten));
  ASSERT_TRUE(of_share) << to_string(of_share.error());
  EXPECT_EQ(of_share->parts[0].of_each_process().memory, gib(6)) << "no more than the share";
  EXPECT_EQ(of_share->parts[0].of_each_process().sms, 30u);
  EXPECT_EQ(of_share->parts[0].limits.sms, 66u);
  const auto sliced = with({whole()}, R"({"strategy":"TimeSlicing"})");
  ASSERT_TRUE(sliced) << to_string(sliced.error());
  EXPECT_EQ(sliced->parts[0].of_each_process(), plan::ShareLimits{});
  EXPECT_THAT(with({share("gpu", 6, 50)}, R"({"strategy":"TimeSlicing"})").error().what,
              HasSubstr("config[0].sharing.strategy is TimeSlicing, and request \"gpu\" has a share"));
  EXPECT_THAT(with({whole()}, R"({"strategy":"CPU"})").error().what, HasSubstr("config[0].sharing.strategy is"));
  for (auto& [gpu, pool] : offered_.mps_pools) pool = "set-1";
  const auto each =
      with({whole("gpu-1"), whole("gpu-0")}, limits(R"(,"defaultPerDevicePinnedMemoryLimit":{"0":"4Gi"})" + ten));
  ASSERT_TRUE(each) << to_string(each.error());
  EXPECT_EQ(each->parts[0].process.memory, gib(4)) << "by place in the request";
  EXPECT_EQ(each->parts[1].process.memory, gib(10));
  EXPECT_THAT(
      with({whole()}, limits(R"(,"defaultPerDevicePinnedMemoryLimit":{"1":"4Gi"})")).error().what,
      HasSubstr("defaultPerDevicePinnedMemoryLimit[\"1\"] is not a GPU of request \"gpu\"; write a UUID of GPU-"));
  prepared_["x"] = *each;
  EXPECT_EQ(parse_prepared(render_prepared(prepared_)).claims, prepared_);
}

TEST_F(DraPrepare, RecordsComeBackFromTheirFile) {
  ASSERT_TRUE(put("a", {share("x", 6, 20, "s1"), share("y", 4, 10, "s2")}));
  ASSERT_TRUE(put("b", {whole("gpu-1")}));
  const auto read = parse_prepared(render_prepared(prepared_));
  EXPECT_EQ(read.claims, prepared_);
  EXPECT_THAT(read.lost, IsEmpty());
}

// Promise: dra/prepare: Damage of one record on disk loses that record only.
TEST_F(DraPrepare, ADamagedRecordIsLostAlone) {
  ASSERT_TRUE(put("a", {share("x", 6, 20)}));
  ASSERT_TRUE(put("b", {whole("gpu-1")}));
  ASSERT_TRUE(put("c", {share("x", 6, 20)}));
  const auto text = render_prepared(prepared_);
  const auto second = text.find('\n') + 1;
  for (const std::size_t at : {second, second + 30, text.find('\n', second) - 1}) {
    auto damaged = text;
    damaged[at] = damaged[at] == '0' ? '1' : '0';
    const auto read = parse_prepared(damaged);
    EXPECT_THAT(read.lost, ElementsAre("line 2: the record is damaged"));
    EXPECT_THAT(read.claims, SizeIs(2));
    EXPECT_FALSE(read.claims.contains("b"));
  }
}

TEST_F(DraPrepare, ASpecHasADeviceForEachResult) {
  const auto made = put("a", {share("x", 6, 20, "s1"), share("x", 4, 10, "s2")});
  ASSERT_TRUE(made);
  grants::Grant grant;
  grant.envs = {{"CUDA_MPS_PIPE_DIRECTORY", "/run/tranche/mps"}};
  grant.mounts = {{"/run/tranche/mps", "/run/nvidia/mps/pools/gpu-0/endpoints/0011223344556677", true}};
  grant.device_nodes = {{"/dev/nvidia0", "/dev/nvidia0"}};
  const auto spec = claim_spec(*made, {grant});
  ASSERT_THAT(spec.devices, SizeIs(3));
  EXPECT_EQ(spec.devices[2].name, "record-a");
  EXPECT_EQ(spec.devices[0].name, "a-x-gpu-0-shared-s1");
  EXPECT_EQ(spec.devices[0].edits, spec.devices[1].edits);
  EXPECT_THAT(spec.devices[0].edits.env, ElementsAre("CUDA_MPS_PIPE_DIRECTORY=/run/tranche/mps"));
  EXPECT_THAT(spec.devices[0].edits.mounts[0].options, testing::Contains("ro"));
  EXPECT_EQ(claim_spec_file(spec.vendor, "a"), "gpu.tranche.io-claim_a.json");
  EXPECT_EQ(test::fault_of(spec), "");
}

// Promise: dra/partitions: A claim has its place on a GPU alone, from before its instance is made until it is gone.
TEST_F(DraPrepare, PartitionsOnDemandNeverOverlap) {
  config::Config config;
  config.dra.devices = config::DraDevices::kAll;
  config.dra.partitions = config::DraPartitions::kOnDemand;
  auto inventory = *gpu::inventory_of_model("H200");
  inventory.gpus[0].mig_enabled = true;
  const std::string gpu = inventory.gpus[0].uuid;
  offered_.devices = devices_of(config, inventory, {}, partitionable_by_model(inventory)).list;
  const auto one = [](const char* device, const char* request = "gpu") {
    return Allocated{request, "n1", device, "", false, {}};
  };
  auto made = put("a", {one("gpu-0-mig-3g71gb-9-4"), one("gpu-0-mig-1g18gb-19-0")});
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_THAT(made->parts, SizeIs(2)) << "each has its own";
  Part& part = made->parts[0];
  EXPECT_EQ(part.kind, Kind::kMig);
  EXPECT_EQ(part.instance, (mig::WholeInstance{9, 3, {4, 4}}));
  EXPECT_EQ(part.gpu_uuid, gpu);
  EXPECT_EQ(part.parent_uuid, gpu);
  EXPECT_FALSE(part.is_made() || part.owns_its_place());
  EXPECT_THAT(refused({one("gpu-0-mig-1g18gb-19-6")}, tranche::Kind::kConflict),
              HasSubstr("the claim team/c-a (a) holds the MIG device at slices 4-7"));
  EXPECT_THAT(refused({one("gpu-0-mig-7g141gb-0-0")}, tranche::Kind::kConflict), HasSubstr("holds the MIG device"));
  EXPECT_THAT(refused({one("gpu-0-mig-1g18gb-19-1"), one("gpu-0-mig-1g35gb-15-0")}, tranche::Kind::kConflict),
              HasSubstr("slice 0"));
  EXPECT_TRUE(put("b", {one("gpu-0-mig-1g18gb-19-1")}));
  auto admin = one("gpu-0-mig-1g18gb-19-2");
  admin.admin_access = true;
  EXPECT_THAT(refused({admin}, tranche::Kind::kInvalid), HasSubstr("exists only while a claim has it"));

  part.gpu_uuid = "MIG-a";
  part.begun = true;
  prepared_["a"] = *made;
  EXPECT_TRUE(part.is_made());
  EXPECT_THAT(refused({one("gpu-0-mig-1g18gb-19-6")}, tranche::Kind::kConflict), HasSubstr("slices 4-7"));
  EXPECT_EQ(parse_prepared(render_prepared(prepared_)).claims, prepared_);
  auto newer = render_prepared(prepared_.at("a")).substr(17);
  newer.pop_back();
  newer.replace(newer.find("\"mig\""), 5, "\"new\"");
  EXPECT_THAT(parse_prepared(hex16(stable_hash(newer)) + " " + newer + "\n").lost, SizeIs(1));
  offered_.devices.clear();
  offered_.partitions_known = false;
  EXPECT_THAT(refused({one("gpu-0-mig-1g18gb-19-6")}, tranche::Kind::kUnavailable), HasSubstr("is not known yet"));
  EXPECT_EQ(prepare(claim("a", {}), offered_, prepared_), *made) << "what is prepared stays";
}

TEST_F(DraPrepare, ASpecGivesItsClaimBackAndItsEndpointsAlsoWithoutTheRecord) {
  auto made = put("a", {share("x", 6, 20, "s1"), share("x", 4, 10, "s2")});
  ASSERT_TRUE(made);
  grants::Grant grant;
  grant.mounts = {{"/run/tranche/mps", "/run/nvidia/mps/pools/gpu-0/endpoints/0011223344556677", true}};
  auto spec = claim_spec(*made, {grant});
  const std::string file = "gpu.tranche.io-claim_a.json";
  const auto read = read_claim_spec(file, cdi::render(spec));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->claim, *made);
  const std::pair<std::string, std::string> endpoint{"gpu-0", "0011223344556677"};
  EXPECT_THAT(read->endpoints, ElementsAre(endpoint));
  for (const char* other : {"", "{}", "[]", R"({"kind": "gpu.tranche.io"})", R"({"kind": "gpu.tranche.io/gpu"})"})
    EXPECT_FALSE(read_claim_spec(file, other)) << other;
  EXPECT_FALSE(read_claim_spec("gpu.other.io-claim_a.json", cdi::render(spec)));
  const auto renamed = read_claim_spec("gpu.tranche.io-claim_b.json", cdi::render(spec));
  EXPECT_TRUE(renamed && !renamed->claim) << "the record of another claim";
  auto& record = spec.devices.back().edits.env.front();
  record[record.size() / 2] ^= 1;
  const auto damaged = read_claim_spec(file, cdi::render(spec));
  EXPECT_TRUE(damaged && !damaged->claim);
  spec.devices.pop_back();
  const auto without = read_claim_spec(file, cdi::render(spec));
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->claim);
  EXPECT_THAT(without->endpoints, ElementsAre(endpoint));
}

}  // namespace prepare_test
}  // namespace tranche::dra
