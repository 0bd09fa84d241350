#include "base/shared_list.h"

#include <gmock/gmock.h>

#include <string>

namespace tranche {
namespace shared_list_test {

using ::testing::ElementsAre;

TEST(SharedListTest, CopiesShareTheirValues) {
  const SharedList<std::string> list{"a", "b"};
  const SharedList<std::string> copy = list;
  EXPECT_EQ(&copy[0], &list[0]);
  EXPECT_THAT(copy, ElementsAre("a", "b"));
}

TEST(SharedListTest, AReplacedListLeavesItsCopiesAlone) {
  SharedList<std::string> list{"a"};
  const SharedList<std::string> copy = list;
  list = {"b"};
  EXPECT_THAT(copy, ElementsAre("a"));
  EXPECT_THAT(list, ElementsAre("b"));
}

TEST(SharedListTest, EqualIsWhatHasEqualValues) {
  EXPECT_EQ(SharedList<int>({1, 2}), SharedList<int>({1, 2}));
  EXPECT_FALSE(SharedList<int>({1, 2}) == SharedList<int>({1}));
  EXPECT_EQ(SharedList<int>(), SharedList<int>(std::vector<int>()));
  EXPECT_THAT(SharedList<int>(), testing::IsEmpty());
}

}  // namespace shared_list_test
}  // namespace tranche
