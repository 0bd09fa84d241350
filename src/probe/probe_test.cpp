// The parts of the probe that need no GPU.
#include "probe/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "os/files/scratch_fixture.h"
#include "os/socket/socket_fixture.h"
#include "probe/cuda_library.h"
#include "probe/kernels.h"

namespace tranche::probe {
namespace {

using testing::HasSubstr;

std::uint32_t spin_slowly(std::uint32_t x, std::uint32_t iterations) {
  while (iterations-- != 0) x = x * 1664525u + 1013904223u;
  return x;
}

TEST(Kernels, HostJumpsToWhatTheLoopOnTheGpuComputes) {
  for (const std::uint32_t index : {0u, 1u, 1023u, 0xffffffffu}) {
    for (const std::uint32_t iterations : {0u, 1u, 2u, 3u, 255u, 4096u, 40'001u}) {
      EXPECT_EQ(compute_value(index, iterations), spin_slowly(index, iterations)) << index << " " << iterations;
    }
  }
}

TEST(Kernels, ProgramNamesItsKernelAndTheOldestTargetOfToday) {
  const std::string_view ptx = kPtx;
  EXPECT_THAT(ptx, HasSubstr(std::string(".visible .entry ") + kComputeKernel + "("));
  EXPECT_THAT(ptx, HasSubstr(".target sm_50"));
  EXPECT_THAT(ptx, HasSubstr("%smid"));
}

TEST(CudaErrors, ThoseOfMpsAreExplainedWithARemedy) {
  for (const int code : {2, 46, 100, 700, 800, 805, 806, 807, 808, 809, 810, 999}) {
    const CudaErrorText* text = explain(code);
    ASSERT_NE(text, nullptr) << code;
    EXPECT_TRUE(std::string_view(text->name).starts_with("CUDA_ERROR_")) << code;
    EXPECT_NE(std::string_view(text->remedy), "") << code;
  }
  EXPECT_EQ(explain(807)->kind, Kind::kUnavailable) << "may be tried again";
  EXPECT_EQ(explain(12345), nullptr);
}

class Mps : public testing::Test {
 protected:
  Mps() { ::setenv("CUDA_MPS_PIPE_DIRECTORY", scratch_.path().c_str(), 1); }
  ~Mps() override { ::unsetenv("CUDA_MPS_PIPE_DIRECTORY"); }
  os::Fd listener() const { return os::socket_at(control_, 1, SOCK_SEQPACKET); }

  os::Scratch scratch_;
  const std::string control_ = scratch_ / "control";
};

TEST_F(Mps, IsNotClaimedWithoutASocket) {
  const MpsSign sign = look_for_mps({});
  EXPECT_FALSE(sign.control_socket);
  EXPECT_FALSE(sign.connected);
  EXPECT_THAT(mps_verdict(sign), HasSubstr("no sign"));
}

TEST_F(Mps, IsNotClaimedForASocketAlone) {
  const os::Fd fd = listener();
  const MpsSign sign = look_for_mps({});
  EXPECT_TRUE(sign.control_socket);
  EXPECT_FALSE(sign.connected);
  EXPECT_THAT(mps_verdict(sign), HasSubstr("made no connection"));
}

TEST_F(Mps, IsClaimedForANewConnectionOfItsKindOnly) {
  const os::Fd fd = listener();
  int old[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, old), 0);
  const auto before = local_connections();
  EXPECT_EQ(before.size(), 2u);
  EXPECT_FALSE(look_for_mps(before).connected);
  const os::Fd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(os::connect_at(client.get(), control_), 0);
  const MpsSign sign = look_for_mps(before);
  EXPECT_TRUE(sign.connected);
  EXPECT_THAT(sign.peers, testing::ElementsAre(control_));
  for (const int end : old) ::close(end);
}

TEST(Report, JsonHoldsWhatTheTextSays) {
  ProbeReport report;
  report.device_name = "NVIDIA H200\xff";
  report.sms_by_attribute = 26;
  report.sms_seen = 26;
  report.memory_total = gib(140);
  report.memory_free = gib(13);
  report.largest_allocation = gib(12);
  report.allocations = {{gib(1), true, ""}, {gib(99), false, "CUDA_ERROR_OUT_OF_MEMORY"}};
  report.checked_words = 1000;
  report.wrong_words = 3;
  report.driver_cuda = 13000;
  report.throughput = Throughput{1234.5, 0.25, 10, 26, 4096};
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["sms"]["seen"], 26);
  EXPECT_EQ(json["memory"]["largestAllocation"], gib(12).value);
  EXPECT_EQ(json["allocations"][1]["error"], "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(json["answers"]["wrong"], 3);
  EXPECT_EQ(json["throughput"]["blocksPerLaunch"], 26);
  EXPECT_EQ(json["driver"]["cuda"], "13.0");
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("WRONG: 3 of 1000"));
  EXPECT_THAT(text, HasSubstr("refused: CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_THAT(text, HasSubstr("26 by attribute, 26 seen"));
}

TEST(Probe, WithoutACudaLibrarySaysWhatToDo) {
  // The loader finds none in the test's environment; where there is one the probe would run, which is not this test.
  ProbeOptions options;
  options.device = "GPU-none";
  const Result<ProbeReport> report = run_probe(options);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().what, "");
}

}  // namespace
}  // namespace tranche::probe
