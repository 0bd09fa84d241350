#include "doctor/verify/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tranche::verify {
namespace render_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Report kReport{
    "node n1",
    {pass("a.b", "", "fine"), failed("c", "GPU-1", "a <b> & \"c\"\x01", "mend it"), skipped("d", "", "not here")}};

TEST(VerifyReport, EachCheckIsALineWithItsRemedyAndTheEndCounts) {
  EXPECT_THAT(line_of(kReport.checks[0], false),
              AllOf(HasSubstr("PASS"), HasSubstr("a.b"), HasSubstr("fine"), Not(HasSubstr("\033"))));
  EXPECT_THAT(line_of(kReport.checks[1], true),
              AllOf(HasSubstr("\033"), HasSubstr("GPU-1: a <b>"), HasSubstr("→ mend it")));
  EXPECT_EQ(summary_of(kReport), "node n1: 1 passed, 1 failed, 1 skipped\n");
}

TEST(VerifyReport, AsJsonIsOneDocument) {
  const auto json = nlohmann::json::parse(to_json(kReport));
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["checks"][1]["remedy"], "mend it");
  EXPECT_EQ(json["checks"][2]["verdict"], "SKIP");
}

TEST(VerifyReport, AsJUnitEscapesWhatXmlCannotHold) {
  const auto xml = to_junit(kReport);
  EXPECT_THAT(xml, AllOf(HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""),
                         HasSubstr("name=\"c GPU-1\"><failure message=\"a &lt;b&gt; &amp; &quot;c&quot;\\x01\">"),
                         HasSubstr("<skipped message=\"not here\"/>"), Not(HasSubstr("\x01"))));
}

TEST(VerifyReport, NothingThatPassedIsNoSuccess) {
  EXPECT_EQ(exit_status({}), 2);
  EXPECT_EQ(exit_status({skipped("a", "", "b")}), 2);
  EXPECT_EQ(exit_status({skipped("a", "", "b"), pass("c", "", "d")}), 0);
  EXPECT_EQ(exit_status(kReport.checks), 1);
}

}  // namespace render_test
}  // namespace tranche::verify
