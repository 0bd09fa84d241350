#include "os/process/threads.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "os/files/scratch_fixture.h"

namespace tranche::os {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CpuWeight, TheGroupIsThatOfTheCpuController) {
  EXPECT_THAT(cpu_weight_files("0::/kubepods.slice/pod1/c\n"),
              ElementsAre("/sys/fs/cgroup/kubepods.slice/pod1/c/cpu.weight", "/sys/fs/cgroup/cpu.weight"));
  EXPECT_THAT(cpu_weight_files("0::/\n"), ElementsAre("/sys/fs/cgroup//cpu.weight", "/sys/fs/cgroup/cpu.weight"));
  EXPECT_THAT(cpu_weight_files("5:cpuset:/no\n4:cpu,cpuacct:/kubepods/a:b\n0::/unified\n"),
              ElementsAre("/sys/fs/cgroup/cpu/kubepods/a:b/cpu.shares", "/sys/fs/cgroup/cpu/cpu.shares"));
  for (const char* none : {"", "\n", "5:cpuset:/a\n", "0::relative\n", "0::/../other\n", "cpu:/a\n"})
    EXPECT_THAT(cpu_weight_files(none), testing::IsEmpty()) << none;
}

// Weights of requests of 10m, 20m, 100m and 200m as runtimes have written them, by both formulas.
TEST(CpuWeight, LessThanARequestOf100mGivesIsTooLight) {
  for (const char* light : {"10\n", "20\n", "101", "2\n"})
    EXPECT_THAT(cpu_weight_problem("/g/cpu.shares", light), HasSubstr("cpu.shares")) << light;
  for (const char* fine : {"102\n", "204\n", "1024"}) EXPECT_EQ(cpu_weight_problem("/g/cpu.shares", fine), "") << fine;
  for (const char* light : {"1\n", "3", "0\n"})  // 0: cpu.idle
    EXPECT_THAT(cpu_weight_problem("/g/cpu.weight", light), HasSubstr("cpu.weight")) << light;
  for (const char* fine : {"4\n", "8\n", "17\n", "100\n"}) EXPECT_EQ(cpu_weight_problem("/g/cpu.weight", fine), "");
  for (const char* none : {"", "max", "-1", "1 2"}) EXPECT_EQ(cpu_weight_problem("/g/cpu.weight", none), "") << none;
}

TEST(CpuWeight, TheRootGroupOfVersion2HasNoneAndAContainerSeesItsOwnAtTheRoot) {
  const Scratch scratch;
  const std::string& root = scratch.path();
  const auto write = [&](const std::string& path, const char* text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  EXPECT_EQ(own_cpu_weight_problem(root), "") << "no /proc";
  write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(own_cpu_weight_problem(root), "");
  write("/proc/self/cgroup", "0::/kubepods/c\n");
  write("/sys/fs/cgroup/cpu.weight", "1\n");
  EXPECT_THAT(own_cpu_weight_problem(root), HasSubstr("cpu.weight 1,"));
  write("/sys/fs/cgroup/kubepods/c/cpu.weight", "4\n");
  EXPECT_EQ(own_cpu_weight_problem(root), "");
}

}  // namespace
}  // namespace tranche::os
