
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace tranche {
namespace {

const nlohmann::json kDocument = json_of(
    R"({"text":"a","count":3,"below":-3,"huge":18446744073709551615,"part":1.5,"yes":true,"list":[1],"map":{"in":"b"}})");

TEST(JsonRead, WhatIsThereIsRead) {
  EXPECT_EQ(text_at(kDocument, "text"), "a");
  EXPECT_EQ(number_at(kDocument, "below"), -3);
  EXPECT_EQ(count_at(kDocument, "count"), 3u);
  EXPECT_EQ(count_at(kDocument, "huge"), 18446744073709551615u);
  EXPECT_TRUE(truth_at(kDocument, "yes"));
  EXPECT_EQ(list_at(kDocument, "list").size(), 1u);
  EXPECT_EQ(texts_at(json_of(R"({"list":["a",1,"b"]})"), "list"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(text_at(map_at(kDocument, "map"), "in"), "b");
}

TEST(JsonRead, AMemberOfAnotherTypeIsAsAbsentAsOneThatIsNotThere) {
  for (const char* key : {"nothing", "list"}) {
    EXPECT_EQ(text_at(kDocument, key), "");
    EXPECT_EQ(number_at(kDocument, key), std::nullopt);
    EXPECT_EQ(count_at(kDocument, key), 0u);
    EXPECT_FALSE(truth_at(kDocument, key));
    EXPECT_TRUE(map_at(kDocument, key).is_object());
  }
  EXPECT_TRUE(list_at(kDocument, "map").empty());
  EXPECT_EQ(number_at(kDocument, "huge"), std::nullopt) << "it does not fit";
  EXPECT_EQ(number_at(kDocument, "part"), std::nullopt);
  EXPECT_EQ(count_at(kDocument, "below"), 0u);
}

TEST(JsonRead, WhatIsNoObjectHasNoMembers) {
  for (const auto& value : {json_of("[1]"), json_of("3"), json_of("null"), json_of("no JSON")}) {
    EXPECT_TRUE(member_at(value, "text").is_null());
    EXPECT_TRUE(list_at(value, "text").empty());
    EXPECT_EQ(text_at(value, "text"), "");
  }
}

TEST(JsonList, EachElementIsGivenOnceAndForgotten) {
  std::vector<std::string> given;
  const auto each = [&given](const nlohmann::json& element) { given.push_back(json_text(element)); };
  const auto document =
      json_of_list(R"({"a":{"items":[7]},"items":[{"b":[1,{"c":2}]},"text",[3],4],"more":[5],"after":{"items":[6]}})",
                   "items", each);
  EXPECT_EQ(given, (std::vector<std::string>{R"({"b":[1,{"c":2}]})", R"("text")", "[3]", "4"}));
  EXPECT_EQ(json_text(document), R"({"a":{"items":[7]},"after":{"items":[6]},"items":[],"more":[5]})");
}

TEST(JsonList, WhatIsNoListGivesNothing) {
  int given = 0;
  const auto each = [&given](const nlohmann::json&) { ++given; };
  EXPECT_EQ(json_text(json_of_list(R"({"items":{"a":1}})", "items", each)), R"({"items":{"a":1}})");
  EXPECT_EQ(json_text(json_of_list(R"({"items":null})", "items", each)), R"({"items":null})");
  EXPECT_EQ(json_text(json_of_list(R"([[1,2]])", "items", each)), R"([[1,2]])");
  EXPECT_TRUE(json_of_list("", "items", each).is_discarded());
  EXPECT_TRUE(json_of_list(std::string(200, '['), "items", each).is_discarded());
  EXPECT_EQ(given, 0);
  EXPECT_TRUE(json_of_list(R"({"items":[1,)", "items", each).is_discarded()) << "and what was given counts for nothing";
}

}  // namespace
}  // namespace tranche
