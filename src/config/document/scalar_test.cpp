#include "config/document/amounts.h"

#include <gtest/gtest.h>

#include <limits>

namespace tranche::config {
namespace {

TEST(ScalarTest, PlainTextIsTypedByYaml11) {
  struct Row {
    const char* text;
    Scalar means;
  };
  const std::int64_t i8 = 8;
  const std::int64_t thousand = 1000;
  for (const Row& row : {Row{"", Null{}},
                         Row{"~", Null{}},
                         Row{"null", Null{}},
                         Row{"Null", Null{}},
                         Row{"nULL", std::string("nULL")},
                         Row{"true", true},
                         Row{"Yes", true},
                         Row{"on", true},
                         Row{"y", true},
                         Row{"OFF", false},
                         Row{"no", false},
                         Row{"N", false},
                         Row{"yES", std::string("yES")},
                         Row{"8", i8},
                         Row{"+8", i8},
                         Row{"010", i8},
                         Row{"0x8", i8},
                         Row{"0b1000", i8},
                         Row{"0o10", i8},
                         Row{"1_000", thousand},
                         Row{"-8", -i8},
                         Row{"1e3", 1000.0},
                         Row{"2.0", 2.0},
                         Row{".5", 0.5},
                         Row{"5.", 5.0},
                         Row{"08", 8.0},
                         Row{"-1.5e-3", -0.0015},
                         Row{"0:1", std::string("0:1")},
                         Row{"1 2", std::string("1 2")},
                         Row{"0x", std::string("0x")},
                         Row{"--1", std::string("--1")},
                         Row{"1e", std::string("1e")},
                         Row{"2024-01-02", std::string("2024-01-02")},
                         Row{"_1", std::string("_1")},
                         Row{"60s", std::string("60s")},
                         Row{"inf", std::string("inf")},
                         Row{"9223372036854775807", std::int64_t{9223372036854775807}},
                         Row{"-9223372036854775808", std::numeric_limits<std::int64_t>::min()},
                         Row{"18446744073709551616", 18446744073709551616.0}})
    EXPECT_EQ(resolve_plain(row.text), row.means) << row.text << " is " << describe(resolve_plain(row.text));
}

TEST(ScalarTest, DescriptionsNameTheType) {
  EXPECT_EQ(describe(resolve_plain("5")), "the number 5");
  EXPECT_EQ(describe(resolve_plain("off")), "false");
  EXPECT_EQ(describe(resolve_plain("four")), "the text \"four\"");
  EXPECT_EQ(describe(resolve_plain("")), "nothing");
}

}  // namespace
}  // namespace tranche::config
