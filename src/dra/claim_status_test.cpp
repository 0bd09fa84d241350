#include "dra/claim_status.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "kube/object.h"

namespace tranche::dra {
namespace {

using Json = nlohmann::json;

constexpr const char* kGpu = "GPU-0";
const WallTime kThen = WallTime{} + std::chrono::hours(24 * 365 * 30);
const WallTime kLater = kThen + std::chrono::hours(1);

Part part_of_six_gib() {
  Part part;
  part.request = "gpu";
  part.gpu_uuid = kGpu;
  part.kind = Kind::kShared;
  part.cores = 20;
  part.limits = {gib(6), Percent::whole(23), 30};
  part.devices = {{"n1", "gpu-0-shared", "s-1"}};
  return part;
}

ClaimStatus six_gib() {
  ClaimStatus status{{"team", "six", "uid-six"}, "gpu.tranche.io"};
  const Part part = part_of_six_gib();
  add_part(status, part,
           {kube::condition_json(kReady, true, "Prepared", part_text(part)),
            kube::condition_json(kLimitsEnforced, true, "Mps", "by MPS")});
  return status;
}

Json object_of(const ClaimStatus& status, WallTime now, const Json& stored = {}) {
  return json_of(changed_status(status, stored, now).value_or("null"));
}

// Promise: dra/status: A claim's status names each of its devices with what limits it: bytes, SMs and percent.
TEST(ClaimStatus, NamesEachDeviceWithItsLimits) {
  const Json object = object_of(six_gib(), kThen);
  EXPECT_EQ(object["metadata"], (Json{{"name", "six"}, {"namespace", "team"}, {"uid", "uid-six"}}));
  ASSERT_EQ(object["status"]["devices"].size(), 1u);
  const Json& device = object["status"]["devices"][0];
  EXPECT_EQ(device["driver"], "gpu.tranche.io");
  EXPECT_EQ(device["pool"], "n1");
  EXPECT_EQ(device["device"], "gpu-0-shared");
  EXPECT_EQ(device["shareID"], "s-1");
  EXPECT_EQ(
      device["data"],
      (Json{{"gpu", kGpu}, {"kind", "shared"}, {"memoryBytes", std::uint64_t{6} << 30}, {"sms", 30}, {"cores", 20}}));
  ASSERT_EQ(device["conditions"].size(), 2u);
  EXPECT_EQ(device["conditions"][0]["type"], "Ready");
  EXPECT_EQ(device["conditions"][0]["status"], "True");
  EXPECT_EQ(device["conditions"][0]["message"], "at most 6144 MiB and 30 SMs of GPU-0");
  EXPECT_EQ(device["conditions"][1]["type"], "LimitsEnforced");
}

TEST(ClaimStatus, AWholeGpuHasNeitherLimitsNorAShareId) {
  auto part = part_of_six_gib();
  part.kind = Kind::kWhole;
  part.limits = {};
  part.cores = 0;
  part.devices[0].share_id.clear();
  EXPECT_EQ(part_text(part), "all of GPU-0");
  ClaimStatus status{{"team", "six", "uid-six"}, "gpu.tranche.io"};
  add_part(status, part, Json::array({kube::condition_json(kReady, true, "Prepared", part_text(part))}));
  const Json object = object_of(status, kThen);
  const Json& device = object["status"]["devices"][0];
  EXPECT_FALSE(device.contains("shareID")) << "the API refuses an empty one";
  EXPECT_EQ(device["data"], (Json{{"gpu", kGpu}, {"kind", "gpu"}}));
  EXPECT_EQ(device["conditions"].size(), 1u);
}

TEST(ClaimStatus, AConditionKeepsItsTimeWhileItsStatusStays) {
  auto status = six_gib();
  const Json stored = object_of(status, kThen);
  EXPECT_FALSE(changed_status(status, stored, kLater));
  status.entries.clear();
  add_part(status, part_of_six_gib(),
           {kube::condition_json(kReady, false, "Unhealthy", "the GPU is lost"),
            kube::condition_json(kLimitsEnforced, true, "Mps", "by MPS")});
  EXPECT_TRUE(changed_status(status, stored, kLater));
  const Json object = object_of(status, kLater, stored);
  const Json& conditions = object["status"]["devices"][0]["conditions"];
  EXPECT_EQ(conditions[0]["lastTransitionTime"], "1999-12-25T01:00:00Z");
  EXPECT_EQ(conditions[1]["lastTransitionTime"], "1999-12-25T00:00:00Z");
}

TEST(ClaimStatus, EntriesOfOtherDriversAreNotCompared) {
  const auto status = six_gib();
  Json stored = object_of(status, kThen);
  stored["status"]["devices"].push_back({{"driver", "net.example.com"}, {"pool", "n1"}, {"device", "nic-0"}});
  EXPECT_FALSE(changed_status(status, stored, kLater));
  auto none = status;
  none.entries.clear();
  EXPECT_TRUE(changed_status(none, stored, kLater)) << "ours are still there";
  EXPECT_EQ(object_of(none, kThen, stored)["status"]["devices"], Json::array());
  stored["status"]["devices"].erase(0);
  EXPECT_FALSE(changed_status(none, stored, kLater));
}

TEST(ClaimStatus, AnObjectOfAnyShapeIsRead) {
  for (const char* text : {"null", "[]", R"({"status": 3})", R"({"status": {"devices": [1, {"driver": "gpu.tranche.io",
                           "conditions": [7]}]}})"})
    EXPECT_TRUE(changed_status(six_gib(), json_of(text), kLater)) << text;
}

}  // namespace
}  // namespace tranche::dra
