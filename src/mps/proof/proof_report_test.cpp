#include "mps/proof/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tranche::mps {
namespace proof_report_test {

using ::testing::HasSubstr;
using enum ProofVerdict;

ProofReading failed(std::string_view output, std::size_t clients = 0) {
  return read_proof({.exit_code = 1, .output = output, .clients = clients});
}

TEST(ProofReport, PassesOnlyThroughMps) {
  const auto report = [](std::string_view text) { return read_proof({.exit_code = 0, .output = text}); };
  EXPECT_EQ(report("{\"mps\":{\"connected\":true}}\n"), (ProofReading{kPassed, ""}));
  EXPECT_EQ(report("{\"mps\":{\"connected\":false}}\n").verdict, kInconclusive);
  EXPECT_EQ(report("warning\n{\"mps\":{\"connected\":true}}\n").verdict, kPassed);
  for (const char* text : {"", "{}", "{\"mps\":1}", "{\"mps\":{\"connected\":1}}", "[]"}) {
    EXPECT_EQ(report(text).verdict, kInconclusive) << text;
  }
}

TEST(ProofReport, AHangIsAWedge) {
  EXPECT_EQ(read_proof({.exit_code = -1, .timed_out = true, .output = ""}).verdict, kWedged);
  const auto stuck = failed("tranche probe: no answer from the driver within 10000 ms while starting CUDA (cuInit)\n");
  EXPECT_EQ(stuck.verdict, kWedged);
  EXPECT_EQ(stuck.reason, "no answer from the driver within 10000 ms while starting CUDA (cuInit)");
  EXPECT_EQ(failed("tranche probe: CUDA does not start: CUDA_ERROR_MPS_CONNECTION_FAILED: x [cuInit]\n").verdict,
            kWedged);
}

// Promise: mps/proof/proof: A failure with a possible foreign cause does not count against the daemon.
TEST(ProofReport, WhatCanHaveAnotherCauseIsNoWedge) {
  EXPECT_EQ(failed("tranche probe: the CUDA driver library cannot be opened (libcuda.so.1: x) [libcuda.so.1]").verdict,
            kInconclusive);
  EXPECT_EQ(failed("a CUDA context cannot be made: CUDA_ERROR_OUT_OF_MEMORY: x").verdict, kInconclusive);
  EXPECT_EQ(failed("CUDA_ERROR_MPS_MAX_CLIENTS_REACHED").verdict, kInconclusive);
  EXPECT_EQ(failed("CUDA_ERROR_MPS_CLIENT_TERMINATED").verdict, kInconclusive);
  EXPECT_EQ(failed("Segmentation fault").verdict, kInconclusive);
  EXPECT_EQ(failed("CUDA_ERROR_DEVICE_UNAVAILABLE", 48).verdict, kInconclusive);
  EXPECT_EQ(failed("CUDA_ERROR_DEVICE_UNAVAILABLE", 2).verdict, kWedged);
}

// Promise: mps/proof/proof: A failure that ending clients would not fix ends no client.
TEST(ProofReport, WhatEndingClientsWouldNotMendKeepsThePoolFromServingAndEndsNobody) {
  EXPECT_EQ(failed("CUDA_ERROR_MPS_SERVER_NOT_READY").verdict, kUnfit);
  EXPECT_EQ(failed("tranche probe: 3 of 100 words that the GPU computed are wrong; take this GPU out").verdict, kUnfit);
  EXPECT_EQ(failed("CUDA_ERROR_NO_DEVICE").verdict, kUnfit);
  EXPECT_THAT(failed("CUDA_ERROR_MPS_SERVER_NOT_READY").reason, HasSubstr("while it handles a fatal GPU error"));
}

}  // namespace proof_report_test
}  // namespace tranche::mps
