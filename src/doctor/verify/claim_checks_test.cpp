#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "doctor/verify/checks.h"

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
