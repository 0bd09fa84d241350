#include "base/text.h"

#include <gmock/gmock.h>

namespace tranche {
namespace long_text_test {

using ::testing::SizeIs;

TEST(LongText, IsWhatWasAdded) {
  LongText text = "head ";
  std::string whole = "head ";
  for (int i = 0; whole.size() < 3 * LongText::kBlock; ++i) {
    text += std::to_string(i);
    whole += std::to_string(i);
  }
  EXPECT_EQ(text.str(), whole);
  EXPECT_EQ(text.size(), whole.size());
  const std::string large(2 * LongText::kBlock, 'x');
  text += large;
  EXPECT_EQ(text.str(), whole + large);
}

TEST(LongText, NothingHasNoBlocks) {
  LongText text = std::string();
  text += "";
  EXPECT_TRUE(text.empty());
  EXPECT_THAT(text.blocks(), testing::IsEmpty());
  EXPECT_EQ(text.str(), "");
}

TEST(LongText, ACopySharesTheBlocksAndGrowsAlone) {
  LongText text;
  text += "a";
  text += "b";
  EXPECT_THAT(text.blocks(), SizeIs(1));
  LongText copy = text;
  EXPECT_EQ(copy.blocks()[0]->data(), text.blocks()[0]->data());
  text += "c";
  copy += "d";
  EXPECT_EQ(text.str(), "abc");
  EXPECT_EQ(copy.str(), "abd");
  copy = text;
  copy += "e";
  text += "f";
  EXPECT_EQ(text.str(), "abcf");
  EXPECT_EQ(copy.str(), "abce");
}

TEST(LongText, WhatItSharesOutlivesWhereItIsFrom) {
  LongText text;
  {
    LongText from = "one two";
    text += "; ";
    text += from;
    EXPECT_EQ(text.blocks()[1]->data(), from.blocks()[0]->data());
  }
  EXPECT_EQ(text.str(), "; one two");
  EXPECT_THAT(text.blocks(), SizeIs(2));
  text += "!";
  EXPECT_EQ(text.str(), "; one two!");
}

}  // namespace long_text_test
}  // namespace tranche
