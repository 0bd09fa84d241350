#include "base/problem.h"

#include <gtest/gtest.h>

namespace tranche {
namespace {

Problem problem(Severity severity, int line, std::string what = "is wrong") {
  return {severity, {"c.yaml", line, 1}, "flags.x", std::move(what), "remove it"};
}

TEST(ProblemList, KeepsTheFirstHundredAndCountsTheRest) {
  ProblemList list;
  for (int line = 1; line <= 310'052; ++line) list.add(problem(Severity::kWarning, line));
  const auto problems = list.take();
  ASSERT_EQ(problems.size(), 101u);
  EXPECT_EQ(problems[99].place.line, 100);
  EXPECT_EQ(to_string(problems[100]),
            "c.yaml: warning: … and at least 309952 more problems (0 of them errors); correct the ones listed, then "
            "look again");
  EXPECT_FALSE(has_error(problems));
}

TEST(ProblemList, AnErrorBehindManyWarningsIsListed) {
  ProblemList list;
  for (int line = 1; line <= 200; ++line) list.add(problem(Severity::kWarning, line));
  list.add(problem(Severity::kError, 201));
  list.sort_by_place();
  const auto problems = list.take();
  ASSERT_EQ(problems.size(), 101u);
  EXPECT_EQ(problems[99].severity, Severity::kError);
  EXPECT_EQ(problems[100].what, "… and at least 101 more problems (0 of them errors)");
  EXPECT_EQ(problems[100].severity, Severity::kWarning);
}

TEST(ProblemList, ErrorsThatAreOnlyCountedAreErrors) {
  const auto problems = bounded(std::vector(150, problem(Severity::kError, 7)));
  ASSERT_EQ(problems.size(), 101u);
  EXPECT_EQ(problems.back().severity, Severity::kError);
  EXPECT_EQ(problems.back().what, "… and at least 50 more problems (50 of them errors)");
  EXPECT_EQ(bounded({problem(Severity::kWarning, 1)}).size(), 1u);
}

TEST(ProblemList, ATextThatQuotesTheWholeInputIsCut) {
  const auto problems = bounded({problem(Severity::kError, 1, std::string(1'000'000, 'x'))});
  EXPECT_EQ(problems.front().what.size(), 1000u);
}

TEST(ProblemList, NotesAreBoundedTheSameWay) {
  std::vector<std::string> notes(1000, "x");
  bound_notes(notes);
  ASSERT_EQ(notes.size(), 101u);
  EXPECT_EQ(notes.back(), "… and 900 more notes");
}

}  // namespace
}  // namespace tranche
