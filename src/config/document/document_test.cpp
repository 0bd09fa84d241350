#include "config/document/document.h"

#include <gmock/gmock.h>

namespace tranche::config {
namespace document_test {

using ::testing::HasSubstr;

NodePtr root_of(std::string_view text) {
  Document document = read_document(text, "f");
  if (document.problem) ADD_FAILURE() << to_string(*document.problem);
  return document.root;
}

std::string problem_of(std::string_view text) {
  const Document document = read_document(text, "f");
  return document.problem ? to_string(*document.problem) : "";
}

TEST(DocumentTest, EverythingKnowsItsPlace) {
  const NodePtr root = root_of("a: 1\nb:\n  - x\n  - {c: \"2\"}\n");
  ASSERT_EQ(root->members.size(), 2u);
  EXPECT_EQ(root->members[1].line, 2);
  const Node& item = *root->members[1].value->items[1];
  EXPECT_EQ(item.members[0].value->line, 4);
  EXPECT_EQ(item.members[0].value->column, 9);
  EXPECT_TRUE(item.members[0].value->quoted);
}

TEST(DocumentTest, AliasesAndMergeKeysAreResolved) {
  const NodePtr root = root_of("a: &x {k: 1, m: 2}\nb: {<<: *x, m: 3}\nc: *x\nd: {<<: [*x, {n: 4}]}\n");
  const Node& b = *root->members[1].value;
  ASSERT_EQ(b.members.size(), 2u);
  EXPECT_EQ(b.members[0].key, "m");
  EXPECT_EQ(b.members[0].value->text, "3");
  EXPECT_EQ(b.members[1].key, "k");
  EXPECT_EQ(root->members[2].value, root->members[0].value);
  EXPECT_EQ(root->members[3].value->members.size(), 3u);
}

TEST(DocumentTest, OnlyTheFirstDocumentIsRead) {
  EXPECT_EQ(root_of("a: 1\n---\nb: [\n")->members[0].key, "a");
  EXPECT_EQ(read_document("a: 1\n---\nb: 1\n", "f").ignored->line, 3);
  EXPECT_EQ(read_document("a: 1\n---\n# nothing\n", "f").ignored, nullptr);
  EXPECT_EQ(root_of(""), nullptr);
  EXPECT_EQ(root_of("# nothing\n"), nullptr);
}

TEST(DocumentTest, AllDocumentsAreReadWithTheirPlacesUntilOneIsBroken) {
  const auto all = read_documents("a: &x 1\n---\n# nothing\n---\nb: 2\n", "f", 100);
  ASSERT_EQ(all.size(), 2u) << "the empty one is left out";
  EXPECT_EQ(all[1].root->members[0].key, "b");
  EXPECT_EQ(all[1].root->line, 5);
  const auto broken = read_documents("a: 1\n---\nb: [\n---\nc: 1\n", "f", 100);
  ASSERT_EQ(broken.size(), 2u);
  EXPECT_FALSE(broken[0].problem);
  EXPECT_TRUE(broken[1].problem);
  EXPECT_THAT(to_string(*read_documents("a: 1\n---\nb: *x\n", "f", 100)[1].problem), HasSubstr("f:3:4"));
  const auto stuck = read_documents(",0", "f", 100);  // yaml-cpp alone would return empty documents endlessly
  EXPECT_THAT(to_string(*stuck.back().problem), HasSubstr("f:1:1"));
  EXPECT_TRUE(read_documents("", "f", 100).empty());
  EXPECT_THAT(to_string(*read_documents("a: 1\n", "f", 3)[0].problem), HasSubstr("is larger than 0 MiB"));
}

TEST(DocumentTest, JsonIsReadToo) {
  const NodePtr root = root_of("{\n\t\"a\": {\"b\": [1, null, \"x\\/y\"]}, # said\n\t\"c\": true,\n}");
  ASSERT_EQ(root->members.size(), 2u);
  EXPECT_EQ(root->members[0].value->members[0].value->items[2]->text, "x/y");
  EXPECT_EQ(scalar_of(*root->members[1].value), Scalar{true});
}

TEST(DocumentTest, AKeyNeedsAColon) {
  EXPECT_THAT(problem_of("a:\n  b: 1\n  c\n"),
              HasSubstr("f:3:3: error: has no colon and no value: \"c\"; write the key"));
  EXPECT_EQ(problem_of("a:\n  b: 1\n  c:\n"), "");
}

std::string ones(int count) {
  std::string list = "[";
  for (int i = 0; i < count; ++i) list += "1,";
  return list + "]";
}

TEST(DocumentTest, AConfigurationHasAtMostFiftyThousandKeysAndValues) {
  EXPECT_EQ(problem_of("a:\n  " + ones(49'997) + "\n"), "") << "with the key, the list and the file";
  EXPECT_THAT(problem_of("a:\n  " + ones(49'998) + "\n"), HasSubstr("comes after 50000 keys and values"));
  EXPECT_FALSE(read_documents(ones(60'000), "f", 1 << 20)[0].problem) << "a file of pods may have more";
}

TEST(DocumentTest, AnAliasCountsAsAllItsValues) {
  const std::string large = "a: &a " + ones(20'000) + "\nb: *a\n";
  EXPECT_EQ(problem_of(large), "");
  EXPECT_THAT(problem_of(large + "c: *a\n"), HasSubstr("f:3:4: error: comes after 50000"));
  EXPECT_THAT(problem_of("a: &a " + std::string(900'000, 'x') + "\nb:\n- *a\n- *a\n- *a\n"), HasSubstr("f:5:3: "));
  EXPECT_THAT(problem_of("a: &a " + ones(12'000) + "\nb: &b {x: *a, y: *a}\nc: {<<: *b}\n"), HasSubstr("f:3:"));
}

TEST(DocumentTest, OnlyTextIsRead) {
  EXPECT_EQ(problem_of("a: \xfc\n"), "f:1:4: error: is not UTF-8 here; save the file as UTF-8; is this a text file?");
  EXPECT_THAT(problem_of("a: 1\nbb: x\x07y\n"), HasSubstr("f:2:6: error: has a control character here"));
  EXPECT_THAT(problem_of(std::string("a: \0", 4)), HasSubstr("f:1:4"));
  EXPECT_THAT(problem_of("\xe2\x82"), HasSubstr("is not UTF-8")) << "half a character";
  EXPECT_EQ(root_of("\xef\xbb\xbf"
                    "a: \xe2\x82\xac\t# \xc3\xa4\r\n")
                ->members[0]
                .key,
            "a");
}

TEST(DocumentTest, InvisibleCharactersAreNamedWhereTheyCount) {
  for (const auto& [text, expected] : {
           std::pair{"a: 1\n\xef\xbb\xbf"
                     "b: 1\n",
                     "f:2:1: error: has an invisible character, U+FEFF, a byte order mark"},
           {"a\xe2\x80\x8b: 1\n", "f:1:1: error: has an invisible character, U+200B, a zero-width space"},
           {"a: {b: 1,\xc2\xa0"
            "c: 2}\n",
            "has an invisible character, U+00A0, a no-break space"},
           {"a:\xc2\xa0"
            "1\nb: 2\n",
            "line 1 has an invisible character, U+00A0, a no-break space: delete this"},
       })
    EXPECT_THAT(problem_of(text), HasSubstr(expected)) << text;
  EXPECT_EQ(problem_of("a: \"1\xc2\xa0\"  # \xe2\x80\x8b\n"), "");
  EXPECT_FALSE(read_documents("a: 1\xc2\xa0%\n", "f", 100)[0].problem) << "an annotation of a pod";
}

TEST(DocumentTest, AQuoteMustBeClosedBeforeTheEnd) {
  EXPECT_THAT(problem_of("a: 1\nb: \"x\nc: 2\n"), HasSubstr("f:2:4: error: the quote that begins here is not closed"));
  EXPECT_THAT(problem_of("b: 'it''s\n"), HasSubstr("not closed"));
  EXPECT_THAT(problem_of("b: \"x\\\"\n"), HasSubstr("not closed"));
  EXPECT_EQ(root_of("b: \"x\\\"\"\n")->members[0].value->text, "x\"");
  EXPECT_EQ(root_of("\xef\xbb\xbf'b': 'x'")->members[0].value->text, "x");
}

// Every level refers to the previous one twice: 2^40 paths in a few hundred bytes.
TEST(DocumentTest, AliasesDoNotMultiplyWhatIsHeld) {
  std::string text = "a0: &a0 {k: 1}\n";
  for (int i = 1; i < 40; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " {x: " + below + ", y: " + below + "}\n";
  }
  EXPECT_EQ(read_documents(text, "f", 1 << 20)[0].root->members.size(), 40u);
  EXPECT_THAT(problem_of(text), HasSubstr("comes after 50000 keys and values")) << "a configuration is walked";
  std::string deep = "a0: &a0 [1]\n";
  for (int i = 1; i < 5000; ++i)
    deep += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  EXPECT_THAT(problem_of(deep), HasSubstr("nested too deeply"));
}

}  // namespace document_test
}  // namespace tranche::config
