#include "cli/go_words.h"

#include <gmock/gmock.h>

namespace tranche::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

GoWords read(const Words& arguments) {
  return read_go_words(arguments, [](std::string_view name) { return name == "root" || name == "o"; });
}

TEST(GoWords, OneDashIsAsGoodAsTwo) {
  EXPECT_EQ(read({"-root", "/x", "-switch", "--other", "-h", "-v", "-o", "f"}).words,
            (Words{"--root", "/x", "--switch", "--other", "-h", "-v", "-o", "f"}));
}

TEST(GoWords, AValueMayFollowAfterAnEqualSignAlsoAnEmptyOne) {
  EXPECT_EQ(read({"--root=/x=y", "-root=", "--switch=false", "-switch=true", "-o="}).words,
            (Words{"--root", "/x=y", "--root", "", "--switch=false", "--switch=true", "-o", ""}));
}

TEST(GoWords, AValueIsTakenWhateverItLooksLike) {
  EXPECT_EQ(read({"--root", "--switch", "--switch"}).words, (Words{"--root", "--switch", "--switch"}));
  EXPECT_EQ(read({"--root"}).words, (Words{"--root"})) << "that it lacks its value is for others to say";
}

TEST(GoWords, WhatHasNoNameIsLeftAsItIs) {
  EXPECT_EQ(read({"---root", "--=x", "-=", "--root", "/x"}).words, (Words{"---root", "--=x", "-=", "--root", "/x"}));
}

TEST(GoWords, ReadingEndsAtTheFirstWordThatIsNoFlag) {
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
