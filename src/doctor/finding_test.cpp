#include "doctor/finding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tranche::doctor {
namespace finding_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Finding kPassed{Verdict::kPass, "a.b", "", "fine"};
const Finding kSkipped{Verdict::kSkip, "d", "", "not here"};
const Report kReport{"node n1", {kPassed, {Verdict::kFail, "c", "GPU-1", "a <b> & \"c\"\x01", "correct it"}, kSkipped}};

TEST(Findings, EachCheckIsALineWithItsRemedyAndTheEndCounts) {
  EXPECT_THAT(line_of(kReport.findings[0], false),
              AllOf(HasSubstr("PASS"), HasSubstr("a.b"), HasSubstr("fine"), Not(HasSubstr("\033"))));
  EXPECT_THAT(line_of(kReport.findings[1], true),
              AllOf(HasSubstr("\033"), HasSubstr("GPU-1: a <b>"), HasSubstr("→ correct it")));
  EXPECT_EQ(summary_of(kReport), "node n1: 1 passed, 1 failed, 1 skipped\n");
}

TEST(Findings, NotesAndWarningsAreCountedWhereThereAreSome) {
  const Report report{"this node",
                      {{Verdict::kPass, "a", "", "fine"},
                       {Verdict::kNote, "b", "/x", "so it is", "do"},
                       {Verdict::kWarning, "c", "/y", "bro\xffken", "do"}}};
  EXPECT_THAT(to_text(report), AllOf(HasSubstr("NOTE  b                    /x: so it is\n"), HasSubstr("WARN  c "),
                                     HasSubstr("this node: 1 passed, 1 noted, 1 warned, 0 failed, 0 skipped\n")));
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["warned"], 1);
  EXPECT_THAT(to_junit(report), HasSubstr("<system-out>so it is; do</system-out>"));
}

TEST(Findings, AsJsonIsOneDocument) {
  const auto json = nlohmann::json::parse(to_json(kReport));
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["checks"][1]["remedy"], "correct it");
  EXPECT_EQ(json["checks"][2]["verdict"], "SKIP");
}

TEST(Findings, AsJUnitEscapesWhatXmlCannotHold) {
  const auto xml = to_junit(kReport);
  EXPECT_THAT(xml, AllOf(HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""),
                         HasSubstr("name=\"c GPU-1\"><failure message=\"a &lt;b&gt; &amp; &quot;c&quot;\\x01\">"),
                         HasSubstr("<skipped message=\"not here\"/>"), Not(HasSubstr("\x01"))));
}

TEST(Findings, EachIsReportedAsItIsAdded) {
  Findings findings;
  std::string lines;
  findings.on_add = [&lines](const Finding& finding) { lines += line_of(finding, false); };
  findings.pass("a.b", "", "fine");
  findings.skip("d", "", "not here");
  EXPECT_EQ(findings, (Findings{kPassed, kSkipped}));
  EXPECT_EQ(lines, line_of(kPassed, false) + line_of(kSkipped, false));
}

TEST(Findings, NothingThatPassedIsNoSuccess) {
  EXPECT_EQ(exit_status({}), 2);
  EXPECT_EQ(exit_status({kSkipped}), 2);
  EXPECT_EQ(exit_status({kSkipped, kPassed}), 0);
  EXPECT_EQ(exit_status(kReport.findings), 1);
}

}  // namespace finding_test
}  // namespace tranche::doctor
