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

}  // namespace
}  // namespace tranche
