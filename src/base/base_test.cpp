#include <gmock/gmock.h>

#include "base/problem.h"
#include "base/result.h"
#include "base/text.h"
#include "base/units.h"

namespace tranche {
namespace {

using ::testing::ElementsAre;

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Kind::kInvalid, "odd");
  return n / 2;
}
Result<int> quarter(int n) {
  TRY(const int h, half(n));
  TRY(const int q, half(h));
  return q;
}

TEST(ResultTest, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter(8), 2);
  ASSERT_FALSE(quarter(6));
  EXPECT_EQ(quarter(6).error().what, "odd");
}

TEST(ResultTest, ContextIsAddedFromOutside) {
  const Error e = within(within({Kind::kUnavailable, "driver not loaded", "nvmlInit_v2", 9}, "read inventory"), "plan");
  EXPECT_EQ(to_string(e), "plan: read inventory: driver not loaded [nvmlInit_v2]");
}

TEST(ResultTest, ErrnoGetsTheKindThatFits) {
  EXPECT_EQ(error_from_errno(ENOENT, "cannot open", "x").kind, Kind::kNotFound);
  EXPECT_EQ(error_from_errno(EACCES, "cannot open", "x").kind, Kind::kDenied);
  EXPECT_EQ(error_from_errno(EIO, "cannot read", "x").kind, Kind::kUnavailable);
}

TEST(TextTest, SplitKeepsEmptyPieces) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(TextTest, LinesLoseTheirEnds) {
  EXPECT_THAT(lines_of("a\r\nb\n\nc\n"), ElementsAre("a", "b", "", "c"));
}

TEST(TextTest, NumbersAreTheWholeText) {
  EXPECT_EQ(parse_unsigned("42"), 42u);
  EXPECT_EQ(parse_unsigned("18446744073709551615"), 18446744073709551615ull);
  for (const char* bad : {"", "-1", "+1", " 1", "1 ", "0x1", "18446744073709551616", "1.0"})
    EXPECT_EQ(parse_unsigned(bad), std::nullopt) << bad;
  EXPECT_EQ(parse_signed("-7"), -7);
}

TEST(TextTest, InQuotesShowsWhatCannotBeSeen) {
  EXPECT_EQ(in_quotes("a\"b\n\x01"), "\"a\\\"b\\n\\x01\"");
  EXPECT_EQ(in_quotes(std::string(100, 'x')).size(), 80 + 2 + std::string("…").size());
}

TEST(TextTest, MarkupKeepsNothingThatOpensAnElementOrEndsAnAttribute) {
  EXPECT_EQ(in_markup("<a b='c' d=\"e\">&"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
}
TEST(TextTest, HashIsTheSameForEver) {
  EXPECT_EQ(hex16(stable_hash("GPU-0::1")), hex16(stable_hash("GPU-0::1")));
}
TEST(TextTest, HashIsFnv1a) {
  EXPECT_EQ(hex16(stable_hash("a")), "af63dc4c8601ec8c");
  const std::uint8_t bytes[16] = {0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0xff};
  EXPECT_EQ(uuid_text(bytes), "deadbeef-0001-0203-0405-060708090aff");
}

TEST(UnitsTest, PercentsReadAndWrite) {
  for (const char* text : {"1", "12.5", "33.33", "100", "0.1"}) {
    const auto p = parse_percent(text);
    ASSERT_TRUE(p) << text;
    EXPECT_EQ(to_string(*p), text);
  }
  EXPECT_EQ(to_string(*parse_percent("25.0")), "25");
  for (const char* bad : {"", ".", "1.", ".5", "-1", "1.234", "1e2", "100%", "99999999"})
    EXPECT_FALSE(parse_percent(bad)) << bad;
}

TEST(UnitsTest, BytesForPeople) {
  EXPECT_EQ(to_string(gib(3)), "3.00 GiB");
  EXPECT_EQ(to_string(mib(512)), "512 MiB");
  EXPECT_EQ(to_string(Bytes{17}), "17 B");
}

TEST(ProblemTest, SaysWhatWhereAndWhatToWrite) {
  const Problem p{Severity::kError, {"c.yaml", 3, 5}, "sharing.mps", "has no resources", "write one"};
  EXPECT_EQ(to_string(p), "c.yaml:3:5: error: sharing.mps: has no resources; write one");
}

TEST(ProblemTest, SuggestsOnlyWhatIsClose) {
  EXPECT_EQ(did_you_mean("replica", {"replicas", "name"}), "replicas");
  EXPECT_EQ(did_you_mean("zzz", {"replicas", "name"}), "");
}

}  // namespace
}  // namespace tranche
