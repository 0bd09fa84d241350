#include "os/process/line_reader.h"

#include <gmock/gmock.h>

#include "os/process/process.h"

namespace tranche::os {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LineReader, GivesLinesHoweverTheBytesArrive) {
  const std::string text = "one\ntwo\r\n\nthree";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    LineReader reader(100);
    auto lines = reader.take(text.substr(0, cut));
    for (auto& line : reader.take(text.substr(cut))) lines.push_back(line);
    EXPECT_THAT(lines, ElementsAre("one", "two", "")) << cut;
    EXPECT_THAT(reader.finish(), ElementsAre("three")) << cut;
    EXPECT_THAT(reader.finish(), IsEmpty());
  }
}

TEST(LineReader, CutsALineThatIsTooLongAndGoesOnAfterIt) {
  for (std::size_t step = 1; step < 20; ++step) {
    LineReader reader(5);
    std::string text = "12345\n123456\n1234567890\nend\n";
    std::vector<std::string> lines;
    while (!text.empty()) {
      for (auto& line : reader.take(text.substr(0, step))) lines.push_back(line);
      text.erase(0, step);
    }
    EXPECT_THAT(lines, ElementsAre("12345", "12345…", "12345…", "end")) << step;
    EXPECT_THAT(reader.finish(), IsEmpty());
  }
}

TEST(LineReader, TheRestOfALongLineIsNotALine) {
  LineReader reader(3);
  EXPECT_THAT(reader.take("abcdef"), ElementsAre("abc…"));
  EXPECT_THAT(reader.take("ghi"), IsEmpty());
  EXPECT_THAT(reader.finish(), IsEmpty());
}

// The fields behind the parent.
const std::string kRest = " 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21\n";

TEST(ProcStat, TheStartTimeIsFoundBehindAnyName) {
  EXPECT_EQ(parse_stat("12 (sleep) S 1" + kRest)->ref.start_ticks, 987654u);
  EXPECT_EQ(parse_stat("12 (a) S 1 (b c) S 1" + kRest)->ref.start_ticks, 987654u);
}

TEST(ProcStat, ShortOrStrangeTextIsRefused) {
  for (const char* text : {"", "12", "12 (sleep", "12 (sleep) S 1 2 3", ")))", "12 a) S 1", ")(", "12 (a) S",
                           "1 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20"})
    EXPECT_FALSE(parse_stat(text)) << text;
  for (const char* parent : {"x", "-1"}) EXPECT_FALSE(parse_stat("12 (a) S " + (parent + kRest))) << parent;
}

TEST(ProcStat, NameAndParentAreReadWhateverTheNameIs) {
  const auto stat = parse_stat("12 (a) S 1 (b\n\xff)) S 77" + kRest);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->name,
            "a) S 1 (b?"
            "?)");
  EXPECT_EQ(stat->parent, 77);
}

}  // namespace
}  // namespace tranche::os
