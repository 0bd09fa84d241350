#include "config/choose.h"

#include <gmock/gmock.h>

namespace tranche::config {
namespace chosen_test {

using ::testing::HasSubstr;

const ChosenConfig kTwo{"mps-two", "label", "mps-two", "ConfigMap gpu/configs[mps-two]", "version: v1\n# \"ä\"\n"};

TEST(ChosenConfigFile, IsReadBackAsItWasWritten) {
  EXPECT_EQ(parse_chosen(render_chosen(kTwo)), kTwo);
  EXPECT_EQ(parse_chosen(render_chosen({})), ChosenConfig{});
}

TEST(ChosenConfigFile, OfBytesThatAreNoTextIsStillADocument) {
  ChosenConfig odd = kTwo;
  odd.text = "\xff\xfe";
  EXPECT_TRUE(parse_chosen(render_chosen(odd)));
}

TEST(ChosenConfigFile, ThatIsTornOrOfAnotherFormatIsRefusedWithTheReason) {
  const std::string whole = render_chosen(kTwo);
  EXPECT_FALSE(parse_chosen(whole.substr(0, whole.size() / 2)));
  EXPECT_FALSE(parse_chosen(""));
  EXPECT_FALSE(parse_chosen("[]"));
  const auto newer = parse_chosen(R"({"format": 2})");
  ASSERT_FALSE(newer);
  EXPECT_THAT(newer.error().what, HasSubstr("another format"));
  const auto lacking = parse_chosen(R"({"format": 1, "name": "a"})");
  ASSERT_FALSE(lacking);
  EXPECT_THAT(lacking.error().what, HasSubstr("chosenBy"));
}

TEST(ContentHash, IsTheSameInEveryRunAndAnotherForAnotherContent) {
  EXPECT_EQ(content_hash("version: v1\n"), content_hash("version: v1\n"));
  EXPECT_NE(content_hash("version: v1\n"), content_hash("version: v1"));
  EXPECT_EQ(content_hash("").size(), 16u);
}

}  // namespace chosen_test
}  // namespace tranche::config
