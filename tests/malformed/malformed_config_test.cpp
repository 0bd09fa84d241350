// Configurations with mistakes that people make. The first lines of each file, "#= ", are all its Problems, word for
// word: places count the lines from there on. The rules that every message keeps are tested over all of them.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/text.h"
#include "config/parse/parse.h"
#include "golden/golden.h"

namespace tranche {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kMark = "#= ";

struct Case {
  fs::path path;
  std::string expected;  // the lines with the mark
  std::string text;      // the file without them
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& entry : fs::directory_iterator(golden::source("tests/malformed"))) {
    if (entry.path().extension() != ".yaml") continue;
    Case one{entry.path(), {}, golden::read(entry.path())};
    while (one.text.starts_with(kMark)) {
      const auto end = one.text.find('\n') + 1;
      one.expected += one.text.substr(0, end);
      one.text.erase(0, end);
    }
    all.push_back(std::move(one));
  }
  std::ranges::sort(all, {}, &Case::path);
  return all;
}

std::string lines_of_problems(const config::Parsed& parsed) {
  std::string out;
  for (const Problem& problem : parsed.problems) out += std::string(kMark) + to_string(problem).substr(2) + "\n";
  return out;
}

// Promise: config: Every malformed file gives the problems that are written in it.
TEST(MalformedConfig, EveryFileGivesTheProblemsThatAreWrittenInIt) {
  const auto all = cases();
  EXPECT_GE(all.size(), 100u);
  for (const Case& one : all) {
    const std::string problems = lines_of_problems(config::parse(one.text, "f"));
    golden::compare(one.path, problems + one.text);
  }
}

// Promise: config: Every problem names line, column and remedy.
TEST(MalformedConfig, EveryProblemSaysWhatIsWrongAtWhichLineAndColumnAndWhatToDo) {
  for (const Case& one : cases()) {
    const auto parsed = config::parse(one.text, "f");
    EXPECT_FALSE(parsed.problems.empty()) << one.path;
    const auto lines = static_cast<int>(lines_of(one.text).size());
    for (const Problem& problem : parsed.problems) {
      SCOPED_TRACE(one.path.filename().string() + ": " + to_string(problem));
      EXPECT_GE(problem.place.line, 1);
      EXPECT_LE(problem.place.line, lines + 1) << "an end that is missing is missed after the last line";
      EXPECT_GE(problem.place.column, 1);
      EXPECT_GT(problem.what.size(), 8u);
      EXPECT_GT(problem.remedy.size(), 5u);
      for (const std::string& text : {problem.what, problem.remedy}) {
        EXPECT_FALSE(text.ends_with('.')) << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      }
    }
  }
}

TEST(MalformedConfig, WhatIsIgnoredIsAnErrorWhenStrict) {
  std::size_t stricter = 0;
  for (const Case& one : cases()) {
    const auto usual = config::parse(one.text, "f");
    const auto strict = config::parse(one.text, "f", config::UnknownKeys::kRefused);
    EXPECT_EQ(usual.problems.size(), strict.problems.size()) << one.path;
    EXPECT_TRUE(!has_error(usual.problems) || has_error(strict.problems)) << one.path;
    if (has_error(strict.problems) && !has_error(usual.problems)) ++stricter;
  }
  EXPECT_GE(stricter, 8u) << "files with a key that has no effect";
}

}  // namespace
}  // namespace tranche
