#include "dra/claims_shown.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace tranche::dra {
namespace claims_shown_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

Json status() {
  return Json::parse(R"({
 "mps": {"connected": true},
 "inForce": [{"promise": "memory and SMs of a client", "state": "yes"}],
 "guard": {"state": "on", "limits": [{"grant": "aa", "device": "GPU-0", "limitMiB": 6144}]},
 "grants": [{"namespace": "team", "pod": "one", "container": "gpu", "grant": "aa", "claim": "train",
             "devices": [{"uuid": "GPU-0", "usedMiB": 700}]}],
 "dra": {"driver": "gpu.tranche.io", "serving": true, "registered": true, "problem": "",
  "slices": {"state": "published", "withheld": []},
  "claims": [{"namespace": "team", "name": "train", "uid": "u", "driver": "gpu.tranche.io", "parts": [
   {"request": "gpu", "gpu": "GPU-0", "kind": "shared", "mpsPool": "gpu-1", "grant": "aa", "memoryMiB": 6144,
    "cores": 20, "sms": 30, "devices": [{"pool": "n", "device": "gpu-0-shared", "shareID": "s"}]}]}]}})");
}

TEST(ClaimsShown, NameTheHolderTheLimitsAndThatTheyAreEnforced) {
  const auto shown = claims_shown(status());
  ASSERT_THAT(shown, SizeIs(1));
  EXPECT_EQ(shown[0].claim, "team/train");
  EXPECT_EQ(shown[0].holder, "team/one");
  EXPECT_EQ(shown[0].device, "gpu-0-shared");
  EXPECT_EQ(shown[0].limits, "6144 MiB, 30 SMs (20 cores)");
  EXPECT_EQ(shown[0].used_mib, 700u);
  EXPECT_EQ(shown[0].enforced, "yes");
  EXPECT_THAT(serving_faults(status()), testing::IsEmpty());
}

TEST(ClaimsShown, LimitsOfEachProcessAreNamed) {
  auto json = status();
  auto& part = json["dra"]["claims"][0]["parts"][0];
  part["process"] = {{"memoryMiB", 1024}, {"sms", 16}};
  EXPECT_EQ(claims_shown(json)[0].limits, "6144 MiB, 30 SMs (20 cores), each process 1024 MiB, 16 SMs");
  part["memoryMiB"] = part["sms"] = 0;
  part["process"] = {{"sms", 16}};
  EXPECT_EQ(claims_shown(json)[0].limits, "all of it, each process 16 SMs");
}

TEST(ClaimsShown, AMigDeviceThatIsMadeForTheClaimIsMarked) {
  auto json = status();
  auto& part = json["dra"]["claims"][0]["parts"][0];
  part = {{"request", "gpu"}, {"kind", "mig"}, {"instance", {{"gpu", "GPU-1"}, {"made", true}}}};
  EXPECT_EQ(claims_shown(json)[0].limits, "all of it, on demand");
  part["instance"]["made"] = false;
  EXPECT_EQ(claims_shown(json)[0].limits, "all of it, being made");
}

TEST(ClaimsShown, LimitsThatDoNotHoldAreNamed) {
  auto json = status();
  json["guard"]["limits"] = Json::array();
  EXPECT_EQ(claims_shown(json)[0].enforced, "partly");
  json["inForce"][0] = {{"promise", "memory and SMs of a client"}, {"state", "partly"}, {"why", "gpu-1: backing-off"}};
  EXPECT_EQ(claims_shown(json)[0].enforced, "no");
  EXPECT_THAT(claims_shown(json)[0].why, HasSubstr("backing-off"));
  json["inForce"][0]["why"] = "gpu-2: backing-off";
  EXPECT_EQ(claims_shown(json)[0].enforced, "partly") << "another pool";
  json["mps"] = {{"connected", false}, {"problem", "no socket"}};
  EXPECT_THAT(claims_shown(json)[0].why, HasSubstr("no socket"));
}

TEST(ClaimsShown, ServingThatFailsIsNamed) {
  auto json = status();
  json["dra"]["registered"] = false;
  json["dra"]["slices"] = {{"state", "failing"}, {"problem", "403"}, {"withheld", {"the API server drops x"}}};
  const auto faults = serving_faults(json);
  ASSERT_THAT(faults, SizeIs(3));
  EXPECT_THAT(faults[0].what, HasSubstr("not published: 403"));
  EXPECT_THAT(faults[1].what, HasSubstr("drops x"));
  EXPECT_THAT(faults[2].what, HasSubstr("has not registered the DRA driver gpu.tranche.io"));
  json["dra"]["statusProblem"] = "status.devices of the claim a/b is not written: 422";
  EXPECT_THAT(serving_faults(json).at(3).what, HasSubstr("a/b is not written: 422"));
}

TEST(ClaimsShown, AnythingElseIsNoClaim) {
  for (const char* text : {"null", "[]", R"({"dra": 5})", R"({"dra": {"claims": [5, {"parts": [null, {}]}]}})"})
    for (const auto& part : claims_shown(Json::parse(text))) EXPECT_EQ(part.enforced, "");
}

}  // namespace claims_shown_test
}  // namespace tranche::dra
