#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cdi/spec.h"
#include "doctor/verify/checks.h"
#include "dra/claim_spec.h"

namespace tranche::doctor {
namespace claim_checks_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::json;

Json status() {
  return Json::parse(R"({
 "mps": {"connected": true}, "inForce": [{"promise": "memory and SMs of a client", "state": "yes"}],
 "guard": {"state": "on", "limits": [{"grant": "aa", "device": "GPU-0", "limitMiB": 6144}]},
 "dra": {"driver": "gpu.tranche.io", "serving": true, "registered": true,
  "slices": {"state": "published", "devices": 3, "slices": 2, "withheld": []},
  "claims": [{"namespace": "team", "name": "train", "uid": "u-1", "driver": "gpu.tranche.io", "parts": [
   {"request": "gpu", "gpu": "GPU-0", "kind": "shared", "mpsPool": "gpu-1", "grant": "aa", "memoryMiB": 6144,
    "cores": 20, "sms": 30, "devices": [{"pool": "n", "device": "gpu-0-shared", "shareID": "s"}]}]}]}})");
}

std::pair<std::string, std::string> spec(const std::string& limit) {
  dra::PreparedClaim claim;
  claim.name = {"team", "train", "u-1"};
  claim.driver = "gpu.tranche.io";
  dra::Part part;
  part.request = "gpu";
  part.gpu_uuid = "GPU-0";
  part.mps_pool = "gpu-1";
  part.grant = "aa";
  part.devices = {{"n", "gpu-0-shared", "s"}};
  claim.parts.push_back(part);
  grants::Grant grant;
  grant.envs = {{"NVIDIA_VISIBLE_DEVICES", "GPU-0"}, {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limit}};
  grant.mounts.push_back({"/run/tranche-mps", "/run/nvidia/mps/pools/gpu-1/endpoints/aa", false});
  return {dra::claim_spec_file(claim.driver, "u-1"), cdi::render(dra::claim_spec(claim.driver, claim, {grant}))};
}

Findings specs(const Json& node, const std::map<std::string, std::string>& files) {
  Findings checks;
  check_claim_specs(node, files, checks);
  return checks;
}

// Promise: verify/claims: What containers get by a claim is compared with what is recorded.
TEST(VerifyClaims, ASpecificationIsComparedWithTheRecord) {
  const auto good = specs(status(), {spec("GPU-0=6144M")});
  ASSERT_THAT(good, SizeIs(1));
  EXPECT_EQ(good[0].verdict, Verdict::kPass) << good[0].what;
  const auto wrong = specs(status(), {spec("GPU-0=9999M")});
  ASSERT_THAT(wrong, SizeIs(1));
  EXPECT_EQ(wrong[0].verdict, Verdict::kFail);
  EXPECT_THAT(wrong[0].what, HasSubstr("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT is \"GPU-0=9999M\""));
  const auto lost = specs(status(), {});
  ASSERT_THAT(lost, SizeIs(1));
  EXPECT_THAT(lost[0].what, HasSubstr("gpu.tranche.io-claim_u-1.json is not there"));
  auto none = status();
  none["dra"]["claims"] = Json::array();
  const auto left = specs(none, {spec("GPU-0=6144M")});
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_THAT(left[0].what, HasSubstr("no prepared claim belongs to it"));
}

TEST(VerifyClaims, ARequestWithSeveralGpusIsComparedAsOne) {
  auto two = status();
  auto& parts = two["dra"]["claims"][0]["parts"];
  parts.push_back(parts[0]);
  parts[1].update(Json{{"gpu", "GPU-1"}, {"memoryMiB", 0}, {"process", {{"memoryMiB", 1024}, {"sms", 0}}}});
  auto [file, text] = spec("GPU-0=6144M,GPU-1=1024M");
  EXPECT_EQ(specs(two, {{file, text}}).at(0).verdict, Verdict::kFail) << "it shows one GPU";
  const std::string shown = "NVIDIA_VISIBLE_DEVICES=GPU-0";
  text.replace(text.find(shown), shown.size(), "NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-0");
  const auto good = specs(two, {{file, text}});
  ASSERT_THAT(good, SizeIs(1));
  EXPECT_EQ(good[0].verdict, Verdict::kPass) << good[0].what;
}

TEST(VerifyClaims, LimitsAndServingAreChecked) {
  Findings checks;
  check_claims(status(), checks);
  ASSERT_THAT(checks, SizeIs(2));
  EXPECT_THAT(checks[0].what, HasSubstr("3 devices are published in 2 ResourceSlices, 1 claims are prepared"));
  EXPECT_THAT(checks[1].what, HasSubstr("6144 MiB, 30 SMs (20 cores) of gpu-0-shared, enforced"));
  auto broken = status();
  broken["dra"]["registered"] = false;
  broken["mps"]["connected"] = false;
  checks.clear();
  check_claims(broken, checks);
  ASSERT_THAT(checks, SizeIs(2));
  EXPECT_EQ(checks[0].verdict, Verdict::kFail);
  EXPECT_EQ(checks[1].verdict, Verdict::kFail);
  checks.clear();
  check_claims(Json::object(), checks);
  EXPECT_THAT(checks, IsEmpty());
}

TEST(VerifyClaims, VariablesThatHideTheGpuAreNamed) {
  Findings checks;
  check_environment({{"NVIDIA_VISIBLE_DEVICES", "GPU-0"}}, {"GPU-0"}, checks);
  check_environment({{"NVIDIA_VISIBLE_DEVICES", "GPU-9"}}, {"GPU-0"}, checks);
  check_environment({}, {"GPU-0"}, checks);
  ASSERT_THAT(checks, SizeIs(2));
  EXPECT_EQ(checks[0].verdict, Verdict::kPass);
  EXPECT_EQ(checks[1].verdict, Verdict::kFail);
}

}  // namespace claim_checks_test
}  // namespace tranche::doctor
