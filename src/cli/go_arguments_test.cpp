#include "cli/commands.h"

#include <gmock/gmock.h>

namespace tranche::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Arguments = std::vector<std::string>;

GoArguments read(const Arguments& arguments) {
  return read_go_arguments(arguments, [](std::string_view name) { return name == "root" || name == "o"; });
}

TEST(GoArguments, OneDashIsAsGoodAsTwo) {
  EXPECT_EQ(read({"-root", "/x", "-switch", "--other", "-h", "-v", "-o", "f"}).words,
            (Arguments{"--root", "/x", "--switch", "--other", "-h", "-v", "-o", "f"}));
}

TEST(GoArguments, AValueMayFollowAfterAnEqualSignAlsoAnEmptyOne) {
  EXPECT_EQ(read({"--root=/x=y", "-root=", "--switch=false", "-switch=true", "-o="}).words,
            (Arguments{"--root", "/x=y", "--root", "", "--switch=false", "--switch=true", "-o", ""}));
}

TEST(GoArguments, AValueIsTakenWhateverItLooksLike) {
  EXPECT_EQ(read({"--root", "--switch", "--switch"}).words, (Arguments{"--root", "--switch", "--switch"}));
  EXPECT_EQ(read({"--root"}).words, (Arguments{"--root"})) << "that it lacks its value is for others to say";
}

TEST(GoArguments, WhatHasNoNameIsLeftAsItIs) {
  EXPECT_EQ(read({"---root", "--=x", "-=", "--root", "/x"}).words,
            (Arguments{"---root", "--=x", "-=", "--root", "/x"}));
}

TEST(GoArguments, ReadingEndsAtTheFirstWordThatIsNoFlag) {
  const auto switched = read({"--switch", "false", "--root", "/x"});
  EXPECT_THAT(switched.words, ElementsAre("--switch"));
  EXPECT_THAT(switched.rest, ElementsAre("false", "--root", "/x"));
  EXPECT_THAT(read({"--", "--root"}).rest, ElementsAre("--root"));
  EXPECT_THAT(read({"-", "x"}).rest, ElementsAre("-", "x"));
  EXPECT_THAT(read({""}).rest, ElementsAre(""));
  EXPECT_THAT(read({"--root", "/x"}).rest, IsEmpty());
}

}  // namespace
}  // namespace tranche::cli
