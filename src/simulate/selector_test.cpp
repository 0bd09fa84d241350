#include "simulate/selector.h"

#include <gmock/gmock.h>

namespace tranche::simulate {
namespace selector_test {

const std::string kDriver = "gpu.tranche.io";
const std::map<std::string, std::string> kAttributes{{"gpu.tranche.io/type", "\"shared\""},
                                                     {"resource.kubernetes.io/numaNode", "1"}};

Match of(std::string_view expression, bool shared = true) {
  const auto selector = parse_selector(expression);
  EXPECT_TRUE(selector.terms) << expression;
  return match(selector, {kDriver, kAttributes, shared});
}

TEST(Selector, ComparesDriverAttributesAndSharing) {
  EXPECT_EQ(of("device.driver == 'gpu.tranche.io'"), Match::kYes);
  EXPECT_EQ(of("device.driver == \"gpu.nvidia.com\""), Match::kNo);
  EXPECT_EQ(of(" device.driver!='gpu.nvidia.com'&&device.allowMultipleAllocations "), Match::kYes);
  EXPECT_EQ(of("device.attributes['gpu.tranche.io'].type == 'shared'"), Match::kYes);
  EXPECT_EQ(of("device.attributes['gpu.tranche.io']['type'] == 'gpu'"), Match::kNo);
  EXPECT_EQ(of("device.attributes['resource.kubernetes.io'].numaNode == 1"), Match::kYes);
  EXPECT_EQ(of("device.attributes['resource.kubernetes.io'].numaNode == '1'"), Match::kNo);
  EXPECT_EQ(of("!device.allowMultipleAllocations"), Match::kNo);
  EXPECT_EQ(of("device.allowMultipleAllocations == false", false), Match::kYes);
}

TEST(Selector, OfAnAttributeThatIsNotThereFailsUnlessAnotherTermIsFalse) {
  EXPECT_EQ(of("device.attributes['gpu.tranche.io'].nothing == 'x'"), Match::kFails);
  EXPECT_EQ(of("device.attributes['gpu.tranche.io'].nothing == 'x' && device.driver == 'other'"), Match::kNo);
}

TEST(Selector, OfAnyOtherShapeIsNotEvaluated) {
  for (const char* expression :
       {"", "true", "device.driver", "device.driver == 'a' || device.driver == 'b'", "(device.driver == 'a')",
        "device.driver == 'a' &&", "device.driver == 'it\\'s'", "device.driverx == 'a'", "devicedriver == 'a'",
        "device.capacity['gpu.tranche.io'].memory.compareTo(quantity('6Gi')) >= 0",
        "device.attributes['gpu.tranche.io'].type", "!device.allowMultipleAllocations == true",
        "device.driver == 'a' device.driver == 'a'"})
    EXPECT_FALSE(parse_selector(expression).terms) << expression;
  EXPECT_EQ(match(parse_selector("true"), {kDriver, kAttributes, true}), Match::kYes);
}

}  // namespace selector_test
}  // namespace tranche::simulate
