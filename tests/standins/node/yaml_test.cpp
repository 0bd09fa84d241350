#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu_profile.h"
#include "node_spec.h"
#include "yaml_tree.h"

namespace tranche::sim {
namespace {

using testing::HasSubstr;

// The tree in one line: {a:[b,c]}, ~ for an empty value.
std::string shown(const YamlItem& item) {
  std::string text;
  switch (item.shape) {
    case YamlItem::Shape::kNothing:
      return "~";
    case YamlItem::Shape::kText:
      return item.text;
    case YamlItem::Shape::kList:
      for (const auto& [name, child] : item.entries) text += (text.empty() ? "" : ",") + shown(child);
      return "[" + text + "]";
    case YamlItem::Shape::kMap:
      for (const auto& [name, child] : item.entries) text += (text.empty() ? "" : ",") + name + ":" + shown(child);
      return "{" + text + "}";
  }
  return text;
}

std::string read(const std::string& text) {
  std::vector<Problem> problems;
  const auto item = read_yaml(text, "f", problems);
  return item && problems.empty() ? shown(*item) : to_string(problems.at(0));
}

TEST(Yaml, ReadsWhatPeopleWriteByHand) {
  EXPECT_EQ(read(""), "~");
  EXPECT_EQ(read("# nothing\n\n"), "~");
  EXPECT_EQ(read("a: 1"), "{a:1}");
  EXPECT_EQ(read("---\na: b c # why\nd:\n"), "{a:b c,d:~}");
  EXPECT_EQ(read("a:\n  b: 1\n  c:\n    - x\n    - y: 2\n      z: 3\nd: 4\n"), "{a:{b:1,c:[x,{y:2,z:3}]},d:4}");
  EXPECT_EQ(read("a:\n- 1\n- - 2\n  - 3\n-\nb: 5"), "{a:[1,[2,3],~],b:5}");
  EXPECT_EQ(read("a: {p: H200, l: [1, 'two, 2', \"three\\n\"], m: {}}\n"), "{a:{p:H200,l:[1,two, 2,three\n],m:{}}}");
  EXPECT_EQ(read("a: [1,\n    2, # two\n    3]\nb: 'it''s'\n"), "{a:[1,2,3],b:it's}");
  EXPECT_EQ(read("\"a b\": 00000000:1B:00.0\r\nc: x#y\r\n"), "{a b:00000000:1B:00.0,c:x#y}");
}

TEST(Yaml, SaysWhereItDoesNotUnderstand) {
  EXPECT_THAT(read("a: 1\n b: 2\n"), HasSubstr("f:2:2: error: is indented further"));
  EXPECT_THAT(read("a:\n  b: 1\n c: 2\n"), HasSubstr("f:3:2"));
  EXPECT_THAT(read("a: [1, 2\n"), HasSubstr("ends inside brackets"));
  EXPECT_THAT(read("a: [1 2: 3]\n"), HasSubstr("not separated by a comma"));
  EXPECT_THAT(read("a: \"x\n"), HasSubstr("no closing quote"));
  EXPECT_THAT(read("a: 'x' y\n"), HasSubstr("f:1:8"));
  EXPECT_THAT(read("a: &x 1\n"), HasSubstr("put the text in quotes"));
  EXPECT_THAT(read("\ta: 1\n"), HasSubstr("indented with a tab"));
  EXPECT_THAT(read("a: 1\na: 2\n"), HasSubstr("written twice"));
  EXPECT_THAT(read("a: 1\nb\n"), HasSubstr("f:2:1"));
  EXPECT_THAT(read(std::string(5000, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(read(std::string("a: \0b", 5)), HasSubstr("zero byte"));
}

TEST(NodeYaml, ReportsEveryFaultWithItsPlace) {
  std::vector<Problem> problems;
  parse_node_spec("cuda: thirteen\ntopology: dgx\ngpus:\n  - {profile: H200, uuid: GPU-1, pci: 1b, numa: far}\n", "n",
                  problems);
  std::string all;
  for (const auto& problem : problems) all += to_string(problem) + "\n";
  EXPECT_THAT(all, HasSubstr("n:1:7"));
  EXPECT_THAT(all, HasSubstr("n:2:11"));
  EXPECT_THAT(all, HasSubstr("gpus[0].uuid"));
  EXPECT_THAT(all, HasSubstr("gpus[0].pci"));
  EXPECT_THAT(all, HasSubstr("gpus[0].numa"));
  problems.clear();
  parse_node_spec("gpus: {profile: H200, count: 17}\n", "n", problems);
  EXPECT_TRUE(has_error(problems));
}

TEST(ProfileYaml, MustSayWhatEveryGpuHas) {
  std::vector<Problem> problems;
  parse_profile("name: X\npci: {device: 1}\nmemory: {total: 1GiB, reserved: 2GiB}\n", "p", problems);
  std::string all;
  for (const auto& problem : problems) all += to_string(problem) + "\n";
  EXPECT_THAT(all, HasSubstr("\"sms\" is missing"));
  EXPECT_THAT(all, HasSubstr("reserved must be less than total"));
}

TEST(Amounts, AreBytesOrBinaryUnits) {
  EXPECT_EQ(parse_bytes("10GiB"), 10ull << 30);
  EXPECT_EQ(parse_bytes("644939776"), 644939776u);
  EXPECT_EQ(parse_bytes("10GB"), std::nullopt);
  EXPECT_EQ(parse_bytes("99999999999999999999"), std::nullopt);
  EXPECT_EQ(parse_bytes("18446744073709551615TiB"), std::nullopt);
}

}  // namespace
}  // namespace tranche::sim
