#include "mps/daemon/supervisor.h"

#include <gmock/gmock.h>

namespace tranche::mps {
namespace capacity_test {

using ::testing::HasSubstr;

TEST(Room, CountsTheClientsOfAllServers) {
  Supervisor state;
  EXPECT_EQ(live_clients(state), 0u);
  state.servers = {{12, "ACTIVE", {101, 102}}, {13, "FAULT", {103}}};
  EXPECT_EQ(live_clients(state), 3u);
}

TEST(Room, IsSaidFromNineTenths) {
  EXPECT_EQ(capacity_note(43, 48), "");
  EXPECT_THAT(capacity_note(44, 48), HasSubstr("44 of at most 48 clients"));
  EXPECT_EQ(capacity_note(5, 6), "");
  EXPECT_THAT(capacity_note(6, 6), HasSubstr("all 6 clients"));
  EXPECT_THAT(capacity_note(61, 60), HasSubstr("the next CUDA process fails to start"));
  EXPECT_EQ(capacity_note(0, 0), "");
}

}  // namespace capacity_test
}  // namespace tranche::mps
