// The driver's part of the node doctor on simulated nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/check/check.h"
#include "doctor/finding_fixture.h"
#include "gpu/driver/sim_fixture.h"

namespace tranche::doctor {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

class Doctor : public testing::Test {
 protected:
  Findings look() {
    CheckOptions options;
    options.root = sim_.root();
    Findings findings;
    node_ = check_driver(options, findings);
    return findings;
  }
  gpu::nvml::SimFixture sim_{"gpus: {profile: H200, count: 2}\ntopology: vm\n"};
  gpu::Inventory node_;
};

TEST_F(Doctor, FindsAHealthyDriverFine) {
  sim_.write("/sys/module/nvidia/version", "580.159.04\n");
  const Findings findings = look();
  EXPECT_THAT(findings, Contains(is(Verdict::kPass, "driver.module")));
  EXPECT_THAT(findings, Contains(is(Verdict::kPass, "driver.library")));
  EXPECT_THAT(findings, Contains(says(Verdict::kPass, "gpu.answers", "132 SMs")));
  EXPECT_THAT(findings, Not(Contains(Field(&Finding::verdict, Verdict::kFail))));
  EXPECT_EQ(node_.gpus.size(), 2u);
}

TEST_F(Doctor, SaysThatModuleAndLibraryDoNotBelongTogether) {
  sim_.write("/sys/module/nvidia/version", "590.1\n");
  EXPECT_THAT(look(), Contains(says(Verdict::kFail, "driver.version", "590.1")));
}

TEST_F(Doctor, SaysThatTheDriverIsTooOld) {
  sim_.write("/sys/module/nvidia/version", "580.159.04\n");
  EXPECT_THAT(look(), Not(Contains(is(Verdict::kFail, "driver.version"))));
  sim_.node().set_driver_version("440.33.01", 10020);
  sim_.write("/sys/module/nvidia/version", "440.33.01\n");
  EXPECT_THAT(look(), Contains(says(Verdict::kFail, "driver.version", "440.33.01 is older than 470")));
}

TEST_F(Doctor, SaysThatThereIsNoDriver) {
  sim_.node().set_driver_present(false);
  const Findings findings = look();
  EXPECT_THAT(findings, Contains(is(Verdict::kFail, "driver.module")));
  EXPECT_THAT(findings, Contains(says(Verdict::kFail, "driver.library", "not loaded")));
}

TEST_F(Doctor, NamesALostGpuAndStillLooksAtTheOther) {
  sim_.lose(0, true);
  const Findings findings = look();
  EXPECT_THAT(findings, Contains(says(Verdict::kFail, "gpu.answers", "GPU 0")));
  EXPECT_THAT(findings, Contains(says(Verdict::kPass, "gpu.answers", "GPU 1")));
}

TEST_F(Doctor, FindsComputeModesThatKeepTenantsOut) {
  sim_.node().set_compute_mode(0, 2);
  sim_.node().set_compute_mode(1, 3);
  const Findings findings = look();
  EXPECT_THAT(findings,
              Contains(AllOf(is(Verdict::kFail, "gpu.compute-mode"), Field(&Finding::remedy, HasSubstr("-i 0")))));
  EXPECT_THAT(findings,
              Contains(AllOf(is(Verdict::kNote, "gpu.compute-mode"), Field(&Finding::remedy, HasSubstr("-i 1")))));
}

TEST_F(Doctor, WarnsOfAGpuThatIsSwitchedOffBetweenUses) {
  sim_.node().update_gpu(1, [](sim::GpuState& state) { state.persistence = 0; });
  EXPECT_THAT(look(),
              Contains(AllOf(is(Verdict::kWarning, "gpu.persistence"), Field(&Finding::remedy, HasSubstr("-i 1")))));
}

TEST_F(Doctor, TakesATegraSystemWithoutAModuleForWhatItIs) {
  sim_.remove_library();
  sim_.write("/usr/lib64/libnvidia-ml.so.1", "half of an installation");
  sim_.write("/etc/nv_tegra_release", "# R36");
  const Findings findings = look();
  EXPECT_THAT(findings, Contains(says(Verdict::kPass, "driver.platform", "Tegra")));
  EXPECT_THAT(findings, Not(Contains(Field(&Finding::verdict, Verdict::kFail))));
}

TEST_F(Doctor, SaysWhatTheDriverWouldNotSay) {
  sim_.fail_call("nvmlDeviceGetCudaComputeCapability", 1, 999);
  EXPECT_THAT(look(), Contains(says(Verdict::kWarning, "gpu.doubt", "GPU 1")));
}

}  // namespace
}  // namespace tranche::doctor
