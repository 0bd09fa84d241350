#include "kube/object.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace tranche::kube {
namespace object_test {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::string> names_in(const std::string& body, Result<ListHead>* head = nullptr) {
  std::vector<std::string> names;
  auto parsed = parse_list(body, [&](const Json& object) -> Status {
    names.push_back(name_of(object));
    return {};
  });
  if (head != nullptr) *head = std::move(parsed);
  return names;
}

TEST(ObjectList, GivesEveryObjectAndWhereToGoOn) {
  Result<ListHead> head = fail(Kind::kInvalid, "");
  const auto names = names_in(
      R"({"kind":"NodeList","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]})",
      &head);
  EXPECT_THAT(names, ElementsAre("a", "b"));
  ASSERT_TRUE(head);
  EXPECT_EQ(head->resource_version, "7");
  EXPECT_EQ(head->next, "x");
}

TEST(ObjectList, MayBeEmptyInEitherForm) {
  Result<ListHead> head = fail(Kind::kInvalid, "");
  EXPECT_THAT(names_in(R"({"kind":"NodeList","metadata":{"resourceVersion":"7"},"items":null})", &head), IsEmpty());
  EXPECT_TRUE(head);
  EXPECT_THAT(names_in(R"({"metadata":{"resourceVersion":"7"},"items":[]})", &head), IsEmpty());
  EXPECT_TRUE(head);
}

TEST(ObjectList, ThatIsNoneOrHasNoVersionIsRefused) {
  for (const char* body : {"", "[]", R"({"items":7,"metadata":{"resourceVersion":"7"}})", R"({"kind":"Status"})",
                           R"({"items":[],"metadata":{}})"}) {
    Result<ListHead> head = ListHead{};
    names_in(body, &head);
    EXPECT_FALSE(head) << body;
  }
}

TEST(ObjectRead, TakesTheLabelsOfANodeAndTheDataOfAConfigMapAsFarAsTheyAreTexts) {
  const auto node = Json::parse(R"({"metadata":{"name":"n1","labels":{"a":"1","b":2,"c":""}}})");
  EXPECT_THAT(labels_of(node), ElementsAre(Pair("a", "1"), Pair("c", "")));
  EXPECT_THAT(labels_of(Json::parse(R"({"metadata":{"labels":[]}})")), IsEmpty());
  const auto map = Json::parse(R"({"data":{"x":"version: v1","y":null},"binaryData":{"z":"AAA="}})");
  EXPECT_THAT(data_of_config_map(map), ElementsAre(Pair("x", "version: v1")));
}

TEST(ObjectNameTest, IsANamespaceAndALegalName) {
  EXPECT_EQ(parse_object_name("gpu-operator/gpu.configs"), (ObjectName{"gpu-operator", "gpu.configs"}));
  for (const char* text : {"", "a", "/a", "a/", "a/b/c", "A/b", "a/b c", "a.b/c", "../x", "a/-b"}) {
    const auto parsed = parse_object_name(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().what, testing::HasSubstr("NAMESPACE/NAME"));
  }
}

}  // namespace object_test
}  // namespace tranche::kube
