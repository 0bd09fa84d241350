#include "standins/cuda/sim_cuda_options.h"

#include <gmock/gmock.h>

namespace tranche::sim {
namespace {

TEST(SimCudaOptions, SizesTakeUnitsAndFractions) {
  EXPECT_EQ(parse_size("4096"), 4096u);
  EXPECT_EQ(parse_size("3000M"), 3000ull << 20);
  EXPECT_EQ(parse_size("1.5G"), 3ull << 29);
  EXPECT_EQ(parse_size("2MiB"), 2ull << 20);
  for (const char* bad : {"", "G", "-1G", "1e30", "1X", "nan"}) EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(SimCudaOptions, AWholeCommandLine) {
  std::string problem;
  const auto options =
      parse_sim_cuda_options({"--allocate", "1G", "--allocate", "2G", "--grow", "100M/s", "--kernel-ms", "0.2",
                              "--queue", "40", "--seconds", "1.5", "--fault", "--stay"},
                             &problem);
  ASSERT_TRUE(options) << problem;
  EXPECT_THAT(options->allocations, testing::ElementsAre(1ull << 30, 2ull << 30));
  EXPECT_EQ(options->grow_per_second, 100ull << 20);
  EXPECT_EQ(options->kernel_ns, 200'000);
  EXPECT_EQ(options->queue, 40);
  EXPECT_EQ(options->seconds_ns, 1'500'000'000);
  EXPECT_TRUE(options->fault && options->stay && !options->hold);
}

TEST(SimCudaOptions, HowItEndsAtSigterm) {
  std::string problem;
  const auto options = parse_sim_cuda_options({"--tensor", "--on-term", "1.5:/tmp/a:b"}, &problem);
  ASSERT_TRUE(options && options->on_term) << problem;
  EXPECT_TRUE(options->tensor);
  EXPECT_EQ(options->on_term->seconds_ns, 1'500'000'000);
  EXPECT_EQ(options->on_term->file, "/tmp/a:b");
  EXPECT_FALSE(parse_sim_cuda_options({}, &problem)->on_term);
  for (const char* bad : {"", "1", "1:", ":/tmp/a", "soon:/tmp/a", "-1:/tmp/a", "1000001:/tmp/a"}) {
    EXPECT_FALSE(parse_sim_cuda_options({"--on-term", bad}, &problem)) << bad;
    EXPECT_EQ(problem, std::string("--on-term does not take \"") + bad + "\"");
  }
}

TEST(SimCudaOptions, WhatItDoesNotKnowItNames) {
  std::string problem;
  EXPECT_FALSE(parse_sim_cuda_options({"--allocat", "1G"}, &problem));
  EXPECT_EQ(problem, "unknown option --allocat");
  EXPECT_FALSE(parse_sim_cuda_options({"--allocate", "much"}, &problem));
  EXPECT_EQ(problem, "--allocate does not take \"much\"");
}

TEST(SimCudaOptions, LinesOfStdin) {
  EXPECT_EQ(parse_sim_cuda_line("alloc 1G").bytes, 1ull << 30);
  EXPECT_EQ(parse_sim_cuda_line("launch 0.5 4").kernel_ns, 500'000);
  EXPECT_EQ(parse_sim_cuda_line("launch 0.5 4").count, 4);
  EXPECT_EQ(parse_sim_cuda_line("launch soon").verb, "");
  EXPECT_EQ(parse_sim_cuda_line("").verb, "");
}

}  // namespace
}  // namespace tranche::sim
