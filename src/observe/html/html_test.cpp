#include "observe/html/html.h"

#include <gmock/gmock.h>

namespace tranche::html {
namespace html_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HtmlText, StaysText) {
  EXPECT_EQ(text("</p><b a='1' c=\"2\">&"), "&lt;/p&gt;&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;");
  EXPECT_EQ(text("a\x1b\xff"), "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_LE(text(std::string(10'000, '<')).size(), 4 * 1000u + 3);
  EXPECT_TRUE(text(std::string(10'000, 'a')).ends_with("a…"));
}

TEST(HtmlFrame, ReloadsOnlyWhenAskedTo) {
  Html still, live;
  begin(still, "a title");
  begin(live, "a title", 10);
  EXPECT_THAT(still.take().str(), Not(HasSubstr("refresh")));
  EXPECT_THAT(live.take().str(), HasSubstr("<meta http-equiv=refresh content=10>"));
}

TEST(HtmlPolicy, AllowsNoForm) {
  EXPECT_THAT(policy(), HasSubstr("form-action 'none'"));
}

}  // namespace html_test
}  // namespace tranche::html
