#include "base/text.h"

#include <gmock/gmock.h>

namespace tranche {
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

}  // namespace
}  // namespace tranche
