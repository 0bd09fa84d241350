// Lines of a watch → events.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "kube/pod.h"

namespace tranche::kube {
namespace stream_test {

using ::testing::HasSubstr;

void ignore(Change, const nlohmann::json&) {}

TEST(WatchEvent, CarriesItsObjectItsVersionAndItsType) {
  std::string name;
  std::optional<Change> seen;
  const auto version = parse_watch_line(
      R"({"type":"MODIFIED","object":{"metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"12"}}})",
      [&](Change change, const nlohmann::json& object) {
        seen = change;
        name = read_pod(object).name;
      });
  ASSERT_TRUE(version) << version.error().message;
  EXPECT_EQ(seen, Change::kModified);
  EXPECT_EQ(*version, "12");
  EXPECT_EQ(name, "a");
}

TEST(WatchEvent, ABookmarkHasAVersionAndNoObjectForAnybody) {
  const auto version =
      parse_watch_line(R"({"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"99"}}})",
                       [](Change, const nlohmann::json&) { ADD_FAILURE() << "asked"; });
  EXPECT_EQ(version.value_or(""), "99");
}

TEST(WatchEvent, AnErrorIsAStatus) {
  const auto event = parse_watch_line(
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version",
"details":{"retryAfterSeconds":2}}})",
      ignore);
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error(), (ApiStatus{410, "too old resource version", std::chrono::seconds(2)}));
}

TEST(WatchEvent, WhatIsNotUnderstoodIsRefusedWithWhatItWas) {
  const auto why = [](std::string_view line) {
    const auto event = parse_watch_line(line, ignore);
    return event ? "taken" : event.error().message;
  };
  EXPECT_THAT(why("garbage"), HasSubstr("garbage"));
  EXPECT_THAT(why("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(why(R"({"type":"MOVED","object":{}})"), HasSubstr("MOVED"));
  EXPECT_THAT(why(R"({"type":"ADDED"})"), HasSubstr("without an object"));
  EXPECT_THAT(why(R"({"type":"ADDED","object":{"metadata":{}}})"), HasSubstr("resourceVersion"));
}

TEST(ApiStatus, OfABodyThatIsNoneIsTheBodysBeginning) {
  EXPECT_EQ(status_of_body(502, "<html>bad gateway").message, "\"<html>bad gateway\"");
  EXPECT_EQ(status_of_body(503, "").message, "");
  const auto status = status_of_body(403, R"({"kind":"Status","code":7,"reason":"Forbidden","message":"no"})");
  EXPECT_EQ(status.code, 403) << "the HTTP status counts";
  EXPECT_EQ(status.message, "no");
}

}  // namespace stream_test
}  // namespace tranche::kube
