#include <gmock/gmock.h>

#include <filesystem>

#include "doctor/check/check.h"
#include "doctor/finding_fixture.h"
#include "os/files/scratch_fixture.h"

namespace tranche::doctor {
namespace dra_checks_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class CheckDra : public ::testing::Test {
 protected:
  CheckDra() {
    options_.root = scratch_.path();
    fs::create_directories(scratch_ / "var/lib/kubelet/plugins_registry");
    DraLook& look = options_.dra;
    look.config.devices = config::DraDevices::kAll;
    look.server = "https://api";
    options_.agent_status = R"({"dra": {"driver": "gpu.tranche.io", "serving": true, "registered": true,
      "slices": {"state": "published"}, "claims": [{"namespace": "team", "name": "train", "uid": "u-1"}]}})";
    look.ask = [this](const std::string& path) -> Result<kube::KubeAnswer> {
      return path.ends_with("/resource.k8s.io/v1") ? group_ : path.ends_with("/deviceclasses") ? classes_ : claim_;
    };
  }
  Findings found() const {
    Findings findings;
    check_dra(options_, findings);
    return findings;
  }

  os::Scratch scratch_;
  CheckOptions options_;
  kube::KubeAnswer group_{200, "{}"};
  kube::KubeAnswer classes_{200, R"({"items": [{"metadata": {"name": "tranche-shared"}, "spec": {"selectors": [
      {"cel": {"expression": "device.driver == 'gpu.tranche.io'"}}]}}]})"};
  kube::KubeAnswer claim_{200, R"({"metadata": {"uid": "u-1"}})"};  // team/train
};

// Promise: check/dra: Each part that claims rest on is looked at, and what is missing is named with its remedy.
TEST_F(CheckDra, AllIsWell) {
  EXPECT_THAT(found(), Each(Field(&Finding::verdict, Verdict::kPass)));
  EXPECT_EQ(found().size(), 4u);
}

TEST_F(CheckDra, WithoutClaimsNothingIsLookedAt) {
  options_.dra.config.devices = config::DraDevices::kNone;
  options_.agent_status = "{}";
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(CheckDra, AServerWithoutTheGroupIsAnError) {
  group_ = {404, ""};
  EXPECT_THAT(found(), Contains(says(Verdict::kFail, "dra.server", "does not serve resource.k8s.io/v1")));
}

TEST_F(CheckDra, NoClassOfTheDriverIsAnError) {
  classes_.body = R"({"items": [{"spec": {"selectors": [{"cel": {"expression": "true"}}]}}]})";
  EXPECT_THAT(found(), Contains(says(Verdict::kFail, "dra.classes", "no DeviceClass selects")));
  classes_.status = 403;
  EXPECT_THAT(found(), Contains(says(Verdict::kNote, "dra.classes", "no permission to list")));
}

TEST_F(CheckDra, AMissingDirectoryIsAnError) {
  fs::remove_all(options_.root + "/var/lib/kubelet/plugins_registry");
  EXPECT_THAT(found(), Contains(says(Verdict::kFail, "dra.kubelet", "kubelet's directory for DRA drivers")));
}

TEST_F(CheckDra, SlicesThatAreNotPublishedAndADriverThatIsNotRegisteredAreErrors) {
  options_.agent_status = R"({"dra": {"driver": "gpu.tranche.io", "serving": true, "registered": false,
    "slices": {"state": "failing", "problem": "403"}}})";
  EXPECT_THAT(found(), AllOf(Contains(says(Verdict::kFail, "dra.serving", "not published: 403")),
                             Contains(says(Verdict::kFail, "dra.serving", "has not registered"))));
  options_.agent_status = R"({"program": "node"})";
  EXPECT_THAT(found(), Contains(says(Verdict::kFail, "dra.agent", "serves no claims")));
  options_.agent_status = "";
  EXPECT_THAT(found(), Contains(says(Verdict::kNote, "dra.agent", "does not answer")));
}

TEST_F(CheckDra, APreparedClaimWithoutItsObjectIsNamed) {
  claim_ = {404, ""};
  EXPECT_THAT(found(),
              Contains(says(Verdict::kWarning, "dra.claims", "team/train is prepared here, and its ResourceClaim")));
  claim_ = {200, R"({"metadata": {"uid": "u-2"}})"};
  EXPECT_THAT(found(), Contains(says(Verdict::kWarning, "dra.claims", "a new ResourceClaim of that name")));
  claim_ = {500, ""};
  EXPECT_THAT(found(), Each(Field(&Finding::verdict, Verdict::kPass)));
}

}  // namespace dra_checks_test
}  // namespace tranche::doctor
