#include "cdi/live/cdi_specs.h"

#include <gmock/gmock.h>

namespace tranche::cdi {
namespace imex_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Imex, AChannelThatIsThereIsNoProblem) {
  for (const bool required : {false, true}) {
    EXPECT_THAT(imex_problems({true, required}, true), IsEmpty());
    EXPECT_EQ(imex_block({true, required}, true), "");
    EXPECT_THAT(imex_problems({false, required}, false), IsEmpty()) << "none is configured";
    EXPECT_EQ(imex_block({false, required}, false), "");
  }
}

TEST(Imex, AMissingChannelIsLeftOutWithAWarning) {
  const auto problems = imex_problems({true, false}, false);
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].severity, Severity::kWarning);
  EXPECT_EQ(problems[0].path, "imex.channelIDs");
  EXPECT_THAT(problems[0].what, HasSubstr("/dev/nvidia-caps-imex-channels/channel0 is not on this node"));
  EXPECT_EQ(imex_block({true, false}, false), "");
}

TEST(Imex, AMissingChannelThatIsRequiredHoldsEverythingBack) {
  const auto problems = imex_problems({true, true}, false);
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].severity, Severity::kError);
  EXPECT_EQ(problems[0].path, "imex.required");
  EXPECT_THAT(problems[0].remedy, HasSubstr("required: false"));
  EXPECT_THAT(imex_block({true, true}, false), HasSubstr("IMEX channel 0 is required"));
}

}  // namespace imex_test
}  // namespace tranche::cdi
