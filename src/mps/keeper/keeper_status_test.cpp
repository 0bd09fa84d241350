#include "mps/keeper/keeper_status.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace {

TEST(KeeperStatus, IsReadAsItWasWritten) {
  const KeeperStatus status{.version = "0.1.0",
                            .changes = true,
                            .clients = {{{7, 70}, {HeldState::kStarting, 0, ""}},
                                        {{7, 60}, {HeldState::kReleased, 0, ""}},
                                        {{8, 80}, {HeldState::kHeld, 27, ""}},
                                        {{8, 60}, {HeldState::kDead, 27, "no more descriptors"}}},
                            .most_files = 65536};
  const auto read = read_keeper_status(to_json(status));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, status);
}

TEST(KeeperStatus, OfAnUnknownShapeIsRefused) {
  for (const auto* line : {"", "[]", "{}", R"({"version":"1","clients":[{"pid":1}]})",
                           R"({"version":"1","clients":[{"pid":1,"started":2,"state":"asleep"}]})"})
    EXPECT_FALSE(read_keeper_status(line)) << line;
}

TEST(KeeperRequest, IsReadAsItWasWritten) {
  const auto hold = read_keeper_request(to_json(HoldRequest{{7, 70}, "gpu-0/a"}));
  ASSERT_TRUE(hold);
  EXPECT_EQ(std::get<HoldRequest>(*hold).process, (os::ProcessRef{7, 70}));
  EXPECT_EQ(std::get<HoldRequest>(*hold).share, "gpu-0/a");
  EXPECT_TRUE(std::holds_alternative<EndRequest>(*read_keeper_request(to_json(EndRequest{}))));
}

TEST(KeeperRequest, WithoutAProcessIsRefused) {
  for (const auto* line :
       {"", "{}", R"({"request":"hold"})", R"({"request":"hold","pid":-1,"started":5})",
        R"({"request":"hold","pid":99999999999,"started":5})", R"({"request":"kill","pid":1,"started":5})"})
    EXPECT_FALSE(read_keeper_request(line)) << line;
}

}  // namespace
}  // namespace tranche::mps
