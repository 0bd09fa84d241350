#include "guard/pid_namespace.h"

#include <gmock/gmock.h>

namespace tranche::guard {
namespace pid_namespace_test {

TEST(PidNamespace, TheFirstOfAContainerIsKnownByItsInnermostNumber) {
  EXPECT_TRUE(is_first_of_namespace("Name:\tpython3\nNStgid:\t4711\t1\nNSpid:\t4711\t1\nNSpgid:\t4711\t1\n"));
  EXPECT_TRUE(is_first_of_namespace("NSpid:\t4711\t12\t1\n")) << "of a namespace that the container made";
  EXPECT_FALSE(is_first_of_namespace("NSpid:\t4712\t7\n"));
  EXPECT_FALSE(is_first_of_namespace("NSpid:\t1\n")) << "the reader's own";
  EXPECT_FALSE(is_first_of_namespace("NSpid:\t4711\n")) << "the pod shares the host's namespace";
  EXPECT_FALSE(is_first_of_namespace("Name:\tNSpid: 5 1\n")) << "a name is the process's own choice";
  EXPECT_FALSE(is_first_of_namespace(""));
}

}  // namespace pid_namespace_test
}  // namespace tranche::guard
