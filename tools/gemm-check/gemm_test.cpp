// The parts of the tool that need no GPU.
#include "gemm-check/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "gemm-check/cublas_library.h"
#include "gemm-check/gemm_kernels.h"
#include "gemm-check/gemm_report.h"

namespace tranche::gemm_check {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Gemm, ShapesAreCubesOrThreeSides) {
  const auto shapes = parse_gemm_shapes("512, 16x4096x1000,512");
  ASSERT_TRUE(shapes) << to_string(shapes.error());
  EXPECT_THAT(*shapes, ElementsAre(GemmShape{512, 512, 512}, GemmShape{16, 4096, 1000})) << "each once";
  EXPECT_EQ(to_string((*shapes)[1]), "16x4096x1000");
}

TEST(Gemm, RefusesWhatIsNoShapeAndSaysWhatToWrite) {
  for (const char* text :
       {"", "0", "-1", "16x16", "16x16x16x16", "16x x16", "20000", "4096,", "axbxc", "99999999999"}) {
    const auto shapes = parse_gemm_shapes(text);
    ASSERT_FALSE(shapes) << text;
    EXPECT_THAT(shapes.error().what, HasSubstr("16x4096x4096")) << text;
  }
}

TEST(Gemm, TypesAreNamed) {
  const auto types = parse_gemm_types("bf16,fp8, bf16");
  ASSERT_TRUE(types);
  EXPECT_THAT(*types, ElementsAre(GemmType::kBf16, GemmType::kFp8));
  const auto wrong = parse_gemm_types("bf16,half");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().what, HasSubstr("\"half\""));
  EXPECT_THAT(wrong.error().what, HasSubstr("tf32"));
}

TEST(Gemm, DefaultsAreWhatThePageSays) {
  EXPECT_EQ(default_gemm_shapes().size(), 12u);
  EXPECT_EQ(default_gemm_types().size(), 5u);
  for (const GemmShape& shape : default_gemm_shapes()) EXPECT_TRUE(parse_gemm_shapes(to_string(shape)));
}

TEST(Gemm, OneWrongProductMakesTheWholeWrongAndNoneCheckedIsNoPass) {
  GemmReport report;
  EXPECT_EQ(report.outcome(), GemmOutcome::kNotChecked);
  report.cases.resize(3);
  EXPECT_EQ(report.outcome(), GemmOutcome::kNotChecked);
  report.cases[0].outcome = GemmOutcome::kRight;
  EXPECT_EQ(report.outcome(), GemmOutcome::kRight);
  report.cases[1].outcome = GemmOutcome::kWrong;
  EXPECT_EQ(report.outcome(), GemmOutcome::kWrong);
}

TEST(Gemm, ReportSaysHowMuchWasNeverWritten) {
  GemmReport report;
  report.cases.resize(2);
  report.cases[0] = {{512, 512, 512}, GemmType::kBf16, true, GemmOutcome::kWrong, 1000, 250, 5, 12.0, ""};
  report.cases[1] = {{512, 512, 510}, GemmType::kFp8, true, GemmOutcome::kNotChecked, 0, 0, 0, 0, "multiples of 16"};
  const std::string text = gemm_text(report);
  EXPECT_THAT(text, HasSubstr("25.0 % never written, 0.5 % not the product"));
  EXPECT_THAT(text, HasSubstr("not checked: multiples of 16"));
  const auto json = gemm_json(report);
  EXPECT_EQ(json["wrong"], 1);
  EXPECT_EQ(json["cases"][0]["unwritten"], 250);
  EXPECT_EQ(json["cases"][1]["note"], "multiples of 16");
}

TEST(GemmKernels, InputsAreExactInEveryFormatAndSumsInSinglePrecision) {
  for (const std::uint32_t depth : {512u, 11008u}) {
    const Draw draw = whole_numbers(depth);
    double squares = 0;
    for (std::uint32_t i = 0; i < 100'000; ++i) {
      const float value = operand_value(i, 7, draw);
      EXPECT_TRUE(value == 0 || value == 1 || value == -1) << value;
      squares += value * value;
    }
    const double variance = squares / 100'000 * (squares / 100'000) * (depth == 512 ? 2048 : kLargestSide);
    EXPECT_LT(7 * std::sqrt(variance), 256) << "whole numbers up to 256 are exact in bf16";
  }
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const float sixteenths = operand_value(i, 9, kSixteenths) * 16;
    EXPECT_EQ(sixteenths, std::trunc(sixteenths));
    EXPECT_LE(std::abs(sixteenths), 16);
  }
  EXPECT_LT(kLargestSide * 256.0, 0x1p24) << "sums of 256ths";
}

TEST(GemmKernels, ProgramNamesEveryKernelAndTheOldestTargetOfToday) {
  const std::string_view ptx = kGemmPtx;
  for (const char* name : {kOperandKernel, kProductKernel, kCompareKernel}) {
    EXPECT_NE(ptx.find(std::string(".visible .entry ") + name + "("), std::string_view::npos) << name;
  }
  EXPECT_THAT(ptx, HasSubstr(".target sm_50"));
}

TEST(Cublas, IsLookedForWhereOnePutsItAndNowhereElseWhenNamed) {
  EXPECT_THAT(cublas_candidates({"/opt/libcublas.so.12", "/x", "/r", {"/usr/local/cuda"}}),
              ElementsAre("/opt/libcublas.so.12"));
  EXPECT_THAT(cublas_candidates({"/opt.so/lib", "/x", "", {}}),
              ElementsAre("/opt.so/lib/libcublas.so.13", "/opt.so/lib/libcublas.so.12", "/opt.so/lib/libcublas.so.11"));
  const auto files = cublas_candidates({"", "/first:", "/host", {"/usr/local/cuda-13.0"}});
  EXPECT_EQ(files.front(), "/first/libcublas.so.13");
  const auto at = [&](const char* file) { return std::ranges::find(files, file) - files.begin(); };
  EXPECT_LT(at("libcublas.so.11"), at("/host/usr/lib/x86_64-linux-gnu/libcublas.so.13"));
  EXPECT_LT(at("/host/usr/lib64/libcublas.so.11"), at("/usr/local/cuda-13.0/lib64/libcublas.so.13"));
  EXPECT_LT(at("/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcublas.so.13"), std::ssize(files));
}

}  // namespace
}  // namespace tranche::gemm_check
