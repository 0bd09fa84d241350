#include "cdi/csv.h"

#include <gmock/gmock.h>

namespace tranche::cdi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CdiCsv, ReadsTheFourKinds) {
  const auto parsed = parse_csv(
      "dev, /dev/nvhost-ctrl\n"
      "dir,/lib/firmware/tegra23x\r\n"
      "\n"
      "  lib ,  /usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1  \n"
      "sym, /usr/lib/aarch64-linux-gnu/libcuda.so",
      "l4t.csv");
  EXPECT_THAT(parsed.problems, testing::IsEmpty());
  EXPECT_THAT(parsed.entries,
              ElementsAre(CsvEntry{CsvKind::kDevice, "/dev/nvhost-ctrl"},
                          CsvEntry{CsvKind::kDirectory, "/lib/firmware/tegra23x"},
                          CsvEntry{CsvKind::kLibrary, "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1"},
                          CsvEntry{CsvKind::kLink, "/usr/lib/aarch64-linux-gnu/libcuda.so"}));
}

TEST(CdiCsv, KeepsACommaInAPath) {
  EXPECT_THAT(parse_csv("lib, /a,b", "x").entries, ElementsAre(CsvEntry{CsvKind::kLibrary, "/a,b"}));
}

TEST(CdiCsv, NamesEveryLineThatItDoesNotUnderstandAndReadsTheOthers) {
  const auto parsed = parse_csv(
      "dev /dev/a\n"
      "  file, /x\n"
      "lib,\n"
      "lib, usr/lib/x\n"
      "dir, /a/../b\n"
      "dev, /dev/good\n",
      "devices.csv");
  EXPECT_THAT(parsed.entries, testing::SizeIs(1));
  std::vector<std::string> texts;
  for (const auto& problem : parsed.problems) texts.push_back(to_string(problem));
  EXPECT_THAT(texts, ElementsAre(HasSubstr("devices.csv:1:1: warning: the line has no comma"),
                                 HasSubstr("devices.csv:2:3: warning: the line has the unknown kind \"file\""),
                                 HasSubstr("devices.csv:3:1: warning: the line has a path that must not be empty"),
                                 HasSubstr("devices.csv:4:6: warning: the line has a path that must be absolute"),
                                 HasSubstr("devices.csv:5:6: warning: the line has a path that must not have \"..\"")));
  for (const auto& problem : parsed.problems) EXPECT_NE(problem.remedy, "");
}

TEST(CdiCsv, KnowsLinksThatTheLoaderMakesItself) {
  EXPECT_TRUE(is_library_link("/usr/lib/libcuda.so"));
  EXPECT_TRUE(is_library_link("/usr/lib/libcuda.so.1"));
  EXPECT_FALSE(is_library_link("/usr/lib/libcuda.so.1.1"));
  EXPECT_FALSE(is_library_link("/usr/lib/libcuda.so.10"));
  EXPECT_FALSE(is_library_link("/etc/vulkan/icd.d/nvidia_icd.json"));
  EXPECT_FALSE(is_library_link("1"));
}

}  // namespace
}  // namespace tranche::cdi
