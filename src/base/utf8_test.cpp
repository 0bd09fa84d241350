
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"

namespace tranche {
namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto length = character_at(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Texts of every length with characters of every width, so that the cut falls on every byte of a character.
TEST(Utf8, AMessageIsNeverCutInsideACharacter) {
  for (const std::string character : {"a", "é", "版", "😀"})
    for (std::size_t before = 0; before < 5; ++before) {
      std::string text(before, 'x');
      while (text.size() < 120) text += character;
      EXPECT_TRUE(is_utf8(in_quotes(text))) << in_quotes(text);
      EXPECT_TRUE(is_utf8(cut_text(text, 70 + before)));
      EXPECT_LE(cut_text(text, 70 + before).size(), 70 + before);
      EXPECT_TRUE(in_quotes(text).ends_with("…\""));
    }
}

TEST(Utf8, BytesThatAreNoTextAreShownAsNumbers) {
  EXPECT_EQ(in_quotes("caf\xe9"), R"("caf\xe9")");
  EXPECT_EQ(in_quotes("\xed\xa0\x80"), R"("\xed\xa0\x80")");  // half a surrogate
  EXPECT_EQ(in_quotes("\xc0\xaf"), R"("\xc0\xaf")");          // an overlong form
  EXPECT_EQ(in_quotes("café 版 😀"), "\"café 版 😀\"");
}

TEST(Utf8, ControlCharactersOfBothRangesAreShownAsNumbers) {
  EXPECT_EQ(visible_text("\x1b[2Jred\x07\n"), R"(\x1b[2Jred\x07\n)");
  EXPECT_EQ(visible_text("\xc2\x9b"
                         "2J"),
            R"(\xc2\x9b2J)");  // CSI of ISO 6429 in UTF-8
  EXPECT_EQ(visible_text("a \"b\" é"), "a \"b\" é");
}

TEST(Utf8, JsonOfAnyBytesIsMadeAndCanBeRead) {
  const std::string text = "caf\xe9 \xc3";
  for (const auto& json : {json_text(nlohmann::json{{"a", text}}), json_text(nlohmann::ordered_json{{"a", text}}, 2),
                           json_in_ascii(nlohmann::ordered_json{{"a", text}})}) {
    EXPECT_TRUE(is_utf8(json));
    EXPECT_EQ(nlohmann::json::parse(json, nullptr, false).value("a", ""), "caf\xef\xbf\xbd \xef\xbf\xbd");
  }
  EXPECT_EQ(json_in_ascii(nlohmann::ordered_json{{"why", "é…"}}), R"({"why":"\u00e9\u2026"})");
}

TEST(Utf8, JsonOfAnyDepthIsReadOrRefused) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_FALSE(json_of(nested(100)).is_discarded());
  EXPECT_TRUE(json_of(nested(101)).is_discarded());
  EXPECT_TRUE(json_of(nested(200'000)).is_discarded());
  EXPECT_TRUE(json_of(std::string(200'000, '[')).is_discarded());
  EXPECT_TRUE(json_of("[1").is_discarded());
  EXPECT_TRUE(json_of("").is_discarded());
  const auto flat = R"(["[[[[{{{{\"[[[",{"a":[2]},[],{}])";
  EXPECT_EQ(json_of(flat), nlohmann::json::parse(flat));
  std::string many = "[";
  for (int i = 0; i < 1000; ++i) many += R"({"a\\":[1]},)";
  EXPECT_EQ(json_of(many + "0]").size(), 1001u) << "one beside the other is not deep";
}

}  // namespace
}  // namespace tranche
