// --gemm against the stand-ins for libcuda, libcublas and libcublasLt: right and wrong SM counts.
#include <cstdlib>

#include "contract/probe_process.h"
#include "doctor/probe/gemm_kernels.h"

namespace tranche::probe {
namespace {

using testing::HasSubstr;

class Products : public Probe {
 protected:
  static std::string cublas() {
    const char* build = std::getenv("TRANCHE_BUILD");
    return std::string(build != nullptr ? build : ".") + "/standins/cublas";
  }
  static ProbeCliOptions products(const std::string& shapes = "64,48x80x33", const std::string& types = "bf16,fp16") {
    ProbeCliOptions options = quick();
    options.probe.run_for = {};
    options.probe.gemm = GemmOptions{*parse_gemm_shapes(shapes), *parse_gemm_types(types), cublas(), ""};
    return options;
  }
  Ended as_client(const ProbeCliOptions& options, const std::string& percentage) {
    if (!daemon_) world_.start_daemon();
    daemon_ = true;
    return run(options,
               {{"CUDA_MPS_PIPE_DIRECTORY", world_.pipe()}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percentage}});
  }

  bool daemon_ = false;
};

// Promise: probe: Products are right on a whole GPU in every type and layout.
TEST_F(Products, AreRightOnAWholeGpuInEveryTypeAndLayout) {
  const Ended probe = run(products("64,48x80x33,16x128x64", "bf16,fp16,fp8,tf32,fp32"));
  ASSERT_EQ(probe.status, 0) << probe.err;
  const Json gemm = probe.json()["gemm"];
  EXPECT_EQ(gemm["wrong"], 0) << gemm.dump(1);
  EXPECT_EQ(gemm["notChecked"], 1) << "fp8 of 48x80x33";
  EXPECT_EQ(gemm["right"], 3 * 9 - 1);
  EXPECT_EQ(gemm["cublas"], 130000);
  EXPECT_THAT(std::string(gemm["library"]), HasSubstr("libcublas.so.13"));
  for (const Json& one : gemm["cases"]) {
    EXPECT_EQ(one["gflops"] > 0, one["outcome"] == "right") << one;
  }
  EXPECT_EQ(gemm["cases"][0]["elements"], 2 * 64 * 64) << "two draws";
}

// Promise: probe: Elements that were never written are found.
TEST_F(Products, AreFoundPartlyUnwrittenAtACountThatIsKnownWrong) {
  const Ended probe = as_client(products(), "20");  // 26 of 132 SMs: wrong as measured
  EXPECT_EQ(probe.status, 1);
  EXPECT_THAT(probe.err, HasSubstr("8 of 8 matrix products are wrong on 26 SMs"));
  const Json gemm = probe.json()["gemm"];
  EXPECT_EQ(gemm["cases"][0]["outcome"], "WRONG");
  EXPECT_EQ(gemm["cases"][0]["unwritten"], 2 * 64 * 16) << "a quarter, in both draws";
  EXPECT_EQ(gemm["cases"][0]["wrong"], 0);
}

TEST_F(Products, AreRightAtTheCountThatTheShareIsRoundedTo) {
  const Ended probe = as_client(products(), "23");  // 30 SMs
  EXPECT_EQ(probe.status, 0) << probe.err;
  EXPECT_EQ(probe.json()["sms"]["attribute"], 30);
  EXPECT_EQ(probe.json()["gemm"]["right"], 8);
}

TEST_F(Products, InSinglePrecisionAreTheControl) {
  const Ended probe = as_client(products("64", "fp32,tf32"), "20");
  EXPECT_EQ(probe.status, 0) << "only half precision is known to come out wrong";
}

// Promise: probe: Products that cannot be checked have a status of their own.
TEST_F(Products, ThatCannotBeCheckedAreSaidToBeUncheckedWithAStatusOfItsOwn) {
  ProbeCliOptions options = products();
  options.probe.gemm->cublas = world_.dir();
  const Ended probe = run(options);
  EXPECT_EQ(probe.status, 3);
  EXPECT_THAT(probe.err, HasSubstr("NOT checked"));
  EXPECT_THAT(probe.err, HasSubstr("install cuBLAS"));
  EXPECT_EQ(probe.json()["gemm"]["checked"], false);
}

TEST_F(Products, WithoutRoomForThemAreNotCalledRight) {
  world_.start_daemon();
  daemon_ = true;
  world_.ask("set_default_device_pinned_mem_limit " + world_.uuid(0) + " 600M");
  const Ended probe = as_client(products("16384x16384x16,64", "bf16"), "10");
  EXPECT_EQ(probe.status, 0) << probe.err;
  const Json gemm = probe.json()["gemm"];
  EXPECT_EQ(gemm["cases"][0]["outcome"], "not checked");
  EXPECT_THAT(std::string(gemm["cases"][0]["note"]), HasSubstr("OUT_OF_MEMORY"));
  EXPECT_EQ(gemm["right"], 2);
}

TEST_F(Products, OfALibraryWithoutTheFaultAreRightAtEveryCount) {
  world_.start_daemon();
  const Ended probe = run(products("64", "bf16"), {{"CUDA_MPS_PIPE_DIRECTORY", world_.pipe()},
                                                   {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "20"},
                                                   {"TRANCHE_SIM_WRONG_SMS", "none"}});
  EXPECT_EQ(probe.status, 0) << probe.err;
}

}  // namespace
}  // namespace tranche::probe
