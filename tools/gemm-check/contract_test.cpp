// The tool against the stand-ins for libcuda, libcublas and libcublasLt: right and wrong SM counts.
#include <cstdlib>

#include "contract/probe_process.h"
#include "gemm-check/check.h"

namespace tranche::gemm_check {
namespace {

using probe::Ended;
using probe::Json;
using testing::HasSubstr;

class Products : public probe::Probe {
 protected:
  static std::string cublas() {
    const char* build = std::getenv("TRANCHE_BUILD");
    return std::string(build != nullptr ? build : ".") + "/standins/cublas";
  }
  static CheckOptions products(const std::string& shapes = "64,48x80x33", const std::string& types = "bf16,fp16") {
    CheckOptions options;
    options.gemm = GemmOptions{*parse_gemm_shapes(shapes), *parse_gemm_types(types), cublas(), ""};
    options.json = true;
    return options;
  }
  Ended check(const CheckOptions& options, const std::map<std::string, std::string>& env = {}) {
    return run([&](std::FILE* out, std::FILE* err) { return check_main(options, out, err); }, env);
  }
  Ended as_client(const CheckOptions& options, const std::string& percentage) {
    if (!daemon_) world_.start_daemon();
    daemon_ = true;
    return check(options,
                 {{"CUDA_MPS_PIPE_DIRECTORY", world_.pipe()}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percentage}});
  }

  bool daemon_ = false;
};

// Promise: gemm-check: Products are right on a whole GPU in every type and layout.
TEST_F(Products, AreRightOnAWholeGpuInEveryTypeAndLayout) {
  const Ended ended = check(products("64,48x80x33,16x128x64", "bf16,fp16,fp8,tf32,fp32"));
  ASSERT_EQ(ended.status, 0) << ended.err;
  const Json gemm = ended.json()["gemm"];
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

// Promise: gemm-check: Elements that were never written are found.
TEST_F(Products, AreFoundPartlyUnwrittenAtACountThatIsKnownWrong) {
  const Ended ended = as_client(products(), "20");  // 26 of 132 SMs: wrong as measured
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("8 of 8 matrix products are wrong on 26 SMs"));
  const Json gemm = ended.json()["gemm"];
  EXPECT_EQ(gemm["cases"][0]["outcome"], "WRONG");
  EXPECT_EQ(gemm["cases"][0]["unwritten"], 2 * 64 * 16) << "a quarter, in both draws";
  EXPECT_EQ(gemm["cases"][0]["wrong"], 0);
}

TEST_F(Products, AreRightAtTheCountThatTheShareIsRoundedTo) {
  const Ended ended = as_client(products(), "23");  // 30 SMs
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.json()["sms"]["attribute"], 30);
  EXPECT_EQ(ended.json()["gemm"]["right"], 8);
}

TEST_F(Products, InSinglePrecisionAreTheControl) {
  const Ended ended = as_client(products("64", "fp32,tf32"), "20");
  EXPECT_EQ(ended.status, 0) << "only half precision is known to come out wrong";
}

// Promise: gemm-check: Products that cannot be checked have a status of their own.
TEST_F(Products, ThatCannotBeCheckedAreSaidToBeUncheckedWithAStatusOfItsOwn) {
  CheckOptions options = products();
  options.gemm.cublas = world_.dir();
  const Ended ended = check(options);
  EXPECT_EQ(ended.status, 3);
  EXPECT_THAT(ended.err, HasSubstr("NOT checked"));
  EXPECT_THAT(ended.err, HasSubstr("install cuBLAS"));
  EXPECT_EQ(ended.json()["gemm"]["checked"], false);
}

TEST_F(Products, WithoutRoomForThemAreNotCalledRight) {
  world_.start_daemon();
  daemon_ = true;
  world_.ask("set_default_device_pinned_mem_limit " + world_.uuid(0) + " 600M");
  const Ended ended = as_client(products("16384x16384x16,64", "bf16"), "10");
  EXPECT_EQ(ended.status, 0) << ended.err;
  const Json gemm = ended.json()["gemm"];
  EXPECT_EQ(gemm["cases"][0]["outcome"], "not checked");
  EXPECT_THAT(std::string(gemm["cases"][0]["note"]), HasSubstr("OUT_OF_MEMORY"));
  EXPECT_EQ(gemm["right"], 2);
}

TEST_F(Products, OfALibraryWithoutTheFaultAreRightAtEveryCount) {
  world_.start_daemon();
  const Ended ended = check(products("64", "bf16"), {{"CUDA_MPS_PIPE_DIRECTORY", world_.pipe()},
                                                     {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "20"},
                                                     {"TRANCHE_SIM_WRONG_SMS", "none"}});
  EXPECT_EQ(ended.status, 0) << ended.err;
}

}  // namespace
}  // namespace tranche::gemm_check
