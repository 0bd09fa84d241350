#include "base/terminal_text.h"

#include <gtest/gtest.h>

namespace tranche {
namespace {

TEST(TerminalTextTest, ColumnsAreAsWideAsTheirWidestCellAndTheLastIsNotPadded) {
  TerminalText text(false, 80);
  text.heading("Pods");
  text.table({{"POD", "STATE"}, {"a-long-name", "lands"}, {"b", ""}});
  EXPECT_EQ(text.take(), "Pods\n  POD          STATE\n  a-long-name  lands\n  b\n");
}

TEST(TerminalTextTest, SentencesAreWrappedBehindTheirMark) {
  TerminalText text(false, 40);
  text.sentence("-", "one two three four five six seven eight nine ten", "36");
  EXPECT_EQ(text.take(), "  - one two three four five six seven\n    eight nine ten\n");
}

TEST(TerminalTextTest, AWordLongerThanTheLineStandsAlone) {
  TerminalText text(false, 40);
  const std::string word(60, 'x');
  text.sentence("-", "a " + word + " b", "36");
  EXPECT_EQ(text.take(), "  - a\n    " + word + "\n    b\n");
}

TEST(TerminalTextTest, ForeignTextCannotControlTheTerminal) {
  const std::string foreign = "a\x1b[2Jb\rc\xc2\x9bK\n";
  for (const bool colour : {false, true}) {
    TerminalText text(colour, 80);
    text.heading(foreign);
    text.line(foreign);
    text.table({{foreign, foreign}, {foreign, foreign}});
    text.sentence("-", foreign, "36");
    const std::string out = text.take();
    for (const char* bad : {"\x1b[2J", "\r", "\xc2\x9b"}) EXPECT_EQ(out.find(bad), std::string::npos);
    EXPECT_NE(out.find(R"(a\x1b[2Jb\x0dc\xc2\x9bK)"), std::string::npos) << out;
  }
}

TEST(TerminalTextTest, ColourIsLeftOutUnlessAskedFor) {
  TerminalText plain(false, 80);
  plain.heading("a");
  plain.sentence("x", "b", "31");
  EXPECT_EQ(plain.take().find('\x1b'), std::string::npos);
  TerminalText painted(true, 80);
  painted.heading("a");
  EXPECT_EQ(painted.take(), "\x1b[1ma\x1b[0m\n");
}

TEST(Fitted, BreaksAtBlanksAndIndentsWhatFollows) {
  const std::string text = "  head " + std::string(30, 'a') + " " + std::string(20, 'b') + "\nshort\n";
  EXPECT_EQ(fitted(text, 40), "  head " + std::string(30, 'a') + "\n      " + std::string(20, 'b') + "\nshort\n");
  EXPECT_EQ(fitted(text, 0), text) << "not a terminal";
  EXPECT_EQ(fitted(std::string(45, 'x'), 40), std::string(40, 'x') + "\n    " + std::string(5, 'x'));
}

TEST(Fitted, CountsColumnsAndNotBytes) {
  std::string bars;
  for (int i = 0; i < 40; ++i) bars += "█";
  EXPECT_EQ(fitted("\x1b[31m" + bars + "\x1b[0m", 40), "\x1b[31m" + bars + "\x1b[0m");
}

}  // namespace
}  // namespace tranche
