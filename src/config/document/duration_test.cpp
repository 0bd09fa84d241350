#include "config/document/amounts.h"

#include <gtest/gtest.h>

namespace tranche::config {
namespace duration_test {

using namespace std::chrono_literals;

TEST(DurationTest, ReadsGoNotation) {
  struct Row {
    const char* text;
    Duration means;
  };
  for (const Row& row : {Row{"60s", 60s}, Row{"1m30s", 90s}, Row{"1.5h", 90min}, Row{"300ms", 300ms}, Row{"0", 0s},
                         Row{"-5s", -5s}, Row{"+5s", 5s}, Row{".5s", 500ms}, Row{"1us", 1us}, Row{"1µs", 1us},
                         Row{"7ns", 7ns}, Row{"infinite", kInfinite}})
    EXPECT_EQ(parse_duration(row.text), row.means) << row.text;
}

TEST(DurationTest, RefusesEverythingElse) {
  for (const char* bad :
       {"", "30", "s", ".s", "1", "-", "1 s", "1d", "1sm", "Infinite", "inf", "9999999999h", "1s2", "5S"})
    EXPECT_EQ(parse_duration(bad), std::nullopt) << bad;
}

TEST(DurationTest, ReadsWhatItWrites) {
  for (const Duration duration : {Duration(0), Duration(60s), Duration(90min), Duration(2h), Duration(1500ms),
                                  Duration(1), Duration(-5s), Duration(-90min), kInfinite, kInfinite - Duration(1)})
    EXPECT_EQ(parse_duration(render_duration(duration)), duration) << render_duration(duration);
  EXPECT_EQ(render_duration(60s), "60s");
  EXPECT_EQ(render_duration(2h), "2h");
  EXPECT_EQ(render_duration(1500ms), "1500ms");
}

}  // namespace duration_test
}  // namespace tranche::config
